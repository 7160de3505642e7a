"""Watch a made-up fleet at once: its seconds pass as fast as they are counted."""

from dataclasses import dataclass, field

from tests.madeup.shape import FleetShape
from tests.madeup.site import site_nodes
from tests.madeup.watch_faults import WatchFault
from tests.madeup.watched import MadeUpLink, MadeUpWatch, Place

from rdmaprov.finding.finding import Finding
from rdmaprov.watch.answers import parse_names, parse_steps
from rdmaprov.watch.fleet import WatchedFleet
from rdmaprov.watch.judge import judge
from rdmaprov.watch.node_account import NodeAccount
from rdmaprov.watch.results import with_idleness
from rdmaprov.watch.verdict import word

SHAPE = FleetShape(8, rails=8, per_leaf=4)
_NO_FAULT = frozenset({"victim", "unknown"})


@dataclass
class Watching:
    watch: MadeUpWatch
    seconds: int = 0  # that pass at first
    accounts: dict[str, NodeAccount] = field(default_factory=dict)
    links: list[MadeUpLink] = field(default_factory=list)

    def __post_init__(self) -> None:
        for number, node in enumerate(self.watch.nodes):
            self.accounts[node.name] = NodeAccount(node)
            self.links.append(MadeUpLink(self.watch, number))
            self.open(number)
        self.pass_seconds(self.seconds)

    def open(self, number: int) -> None:
        """Have a node say what counters it has."""
        node = self.watch.nodes[number]
        names = parse_names(self.links[number].text("open"), len(node.rails))
        self.accounts[node.name].start(names, float(self.watch.second))

    def pass_seconds(self, count: int) -> None:
        for _ in range(count):
            self.watch.pass_second()
            for number, account in enumerate(self.accounts.values()):
                if number not in self.watch.silent:
                    steps = parse_steps(self.links[number].text("read"), len(account.keys))
                    account.add(steps, float(self.watch.second))

    def fleet(self) -> WatchedFleet:
        return WatchedFleet(self.accounts, float(self.watch.second))

    def verdicts(self) -> list[Finding]:
        fleet = self.fleet()
        return with_idleness(fleet, judge(fleet))


def watch_fault(
    fault: WatchFault | None, place: Place, seed: int, seconds: int, shape: FleetShape = SHAPE
) -> Watching:
    made = [fault.make(place)] if fault else []
    return Watching(MadeUpWatch(site_nodes(shape), seed, made), seconds)


def is_right(
    fault: WatchFault | None, place: Place, verdicts: list[Finding], shape: FleetShape = SHAPE
) -> bool:
    accusing = [each for each in verdicts if word(each) not in _NO_FAULT]
    if fault is None:
        return not verdicts
    number, rail = place
    name = shape.names[number]

    def names_it(each: Finding) -> bool:
        if fault.is_leaf:
            return each.leaf == shape.leaf_name(number) and each.rail == rail
        return each.nodes == (name,) and each.rail == rail

    named = {word(each) for each in accusing if names_it(each)}
    others = [each for each in accusing if not names_it(each) and word(each) not in fault.also]
    sufferers = [each for each in verdicts if word(each) == "victim"]
    has_victims = any(each.rail == rail for each in sufferers)
    if not fault.victims and sufferers:
        return False
    accused = {(node, each.rail) for each in accusing for node in each.nodes}
    suffering = {(node, each.rail) for each in sufferers for node in each.nodes}
    is_known = all(each.proven for each in verdicts)
    return (
        named == set(fault.kinds)
        and not others
        and has_victims == fault.victims
        and not accused & suffering
        and is_known
    )


def is_pair_right(
    faults: tuple[WatchFault, WatchFault], places: tuple[Place, Place], seed: int, seconds: int
) -> bool:
    """Return whether two faults at once, on different rails, are both named, and nothing else."""
    made = [fault.make(place) for fault, place in zip(faults, places, strict=True)]
    watching = Watching(MadeUpWatch(site_nodes(SHAPE), seed, made), seconds)
    wanted = {
        (kind, place[1])
        for fault, place in zip(faults, places, strict=True)
        for kind in fault.kinds
    }
    verdicts = watching.verdicts()
    return wanted == {(word(each), each.rail) for each in verdicts if word(each) not in _NO_FAULT}
