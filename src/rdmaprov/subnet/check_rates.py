"""Judge widths and rates: links slower than their peers, and ports that are not active."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator

from rdmaprov.finding.finding import Finding
from rdmaprov.subnet.fabric import SubnetGraph
from rdmaprov.subnet.model import Cable, Kind, PortState, Subnet
from rdmaprov.subnet.names import place, stem
from rdmaprov.subnet.problem import wrong

# Our choice: where a third of the peers or more are slower, the fabric has two generations.
MOST_SLOW = 1 / 3
_WIDE = ("8X", "12X")  # what switch ports claim to support and no 4X cable can be


def rate_problems(subnet: Subnet, fabric: SubnetGraph) -> Iterator[Finding]:
    """Yield links that are slower than their peers or than both ends could be, and ports not up."""
    slow: set[tuple[int, int]] = set()
    for cables in _peers(subnet.discovery.cables, fabric).values():
        for cable, usual in _slower(cables):
            slow.update((cable.near.key, cable.far.key))
            end, other = sorted((cable.near, cable.far), key=lambda each: each.kind != Kind.SWITCH)
            what = f"{cable.rate()} to {fabric.end_label(other)}, its peers have {usual}"
            yield wrong("subnet.rate", fabric.node_label(end), end.port, what, gbps=cable.gbps)
    yield from _could_be(subnet, slow, fabric)
    yield from _not_active(subnet, fabric)


def _peers(cables: tuple[Cable, ...], fabric: SubnetGraph) -> dict[Hashable, list[Cable]]:
    """Return the links by what they should be alike in; HCAs by the kind of host and the device."""
    found: dict[Hashable, list[Cable]] = defaultdict(list)
    for cable in cables:
        if cable.gbps:
            found[_class(cable, fabric)].append(cable)
    return found


def _class(cable: Cable, fabric: SubnetGraph) -> Hashable:
    for end in (cable.near, cable.far):
        if end.kind is not Kind.SWITCH:
            at = place(end.name)
            return end.kind, stem(at.host), at.device
    levels = fabric.level_of(cable.near.guid), fabric.level_of(cable.far.guid)
    return min(levels), max(levels)


def _slower(cables: list[Cable]) -> Iterator[tuple[Cable, str]]:
    """Yield the few links below the rate of most of their peers, with that rate."""
    usual, count = Counter(cable.gbps for cable in cables).most_common(1)[0]
    slow = [cable for cable in cables if cable.gbps < usual]
    if count * 2 <= len(cables) or len(slow) >= MOST_SLOW * len(cables):
        return
    name = next(cable.rate() for cable in cables if cable.gbps == usual)
    for cable in slow:
        yield cable, name


def _could_be(subnet: Subnet, slow: set[tuple[int, int]], fabric: SubnetGraph) -> Iterator[Finding]:
    """Yield ports of which iblinkinfo says that they could be faster, if it says so of few.

    Many switches claim a width that no cable has, at every port: "Could be 12X" counts for nothing.
    """
    up = [state for state in subnet.states if state.physical == "LinkUp" and state.width]
    usual = Counter(_hint(state) for state in up)
    for state in up:
        if not (hint := _hint(state)) or (state.guid, state.port) in slow:
            continue
        if usual[hint] >= MOST_SLOW * len(up):
            continue
        cable = fabric.cables.get((state.guid, state.port))
        slow.update((cable.near.key, cable.far.key) if cable else ())
        rate = f"{state.width}X {state.lane_gbps:g} Gb/s"
        what = f"{rate} to {state.peer or 'its peer'}, could be {hint}"
        yield wrong("subnet.rate", state.name or hex(state.guid), state.port, what)


def _hint(state: PortState) -> str:
    return ", ".join(each for each in state.could_be if each not in _WIDE)


def _not_active(subnet: Subnet, fabric: SubnetGraph) -> Iterator[Finding]:
    """Yield ports with a link that the subnet manager has not made active."""
    for state in subnet.states:
        if state.physical == "LinkUp" and state.state not in ("Active", "Down"):
            what = f"the link is up, but the port is {state.state}: no subnet manager activated it"
            yield wrong("subnet.port", state.name or hex(state.guid), state.port, what)
    for hca in fabric.hcas:
        if not hca.end.lid:
            what = "the port has no LID: no subnet manager configured it"
            yield wrong("subnet.port", hca.end.name, hca.end.port, what)
