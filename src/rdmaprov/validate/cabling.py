"""Which switch each rail is on, compared with the plan and between nodes."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rdmaprov.facts.lldp_unit import LldpNeighbor
from rdmaprov.inventory import Node, Rail
from rdmaprov.runs.groups import fold_names
from rdmaprov.validate.neighbor import PortNeighbor


@dataclass(frozen=True)
class CabledRail:
    """A rail, and the switch that it is cabled to."""

    node: Node
    rail: Rail
    port: PortNeighbor
    switch: str  # as it announces itself; of a bond, those of all ports, with +

    @property
    def group(self) -> str:
        """Return the node's fabric_leaf."""
        return self.node.leaf


@dataclass(frozen=True)
class AstrayRail:
    """A rail on another switch than comparable ones."""

    cabled: CabledRail
    seen: str
    expected: str
    why: str


def is_planned(rail: Rail, seen: LldpNeighbor) -> bool:
    """Return whether a neighbour is where the site plans a rail."""
    return is_switch(rail.leaf, seen) and (not rail.switch_port or is_port(rail.switch_port, seen))


def is_switch(planned: str, seen: LldpNeighbor) -> bool:
    """Return whether a neighbour is a planned switch: by its name or its chassis ID.

    A name without a domain is that of any domain.
    """
    written, name = planned.lower(), seen.system.lower()
    if written == seen.chassis.lower() or not name:
        return written == seen.chassis.lower()
    if "." in written and "." in name:
        return written == name
    return written.partition(".")[0] == name.partition(".")[0]


def is_port(planned: str, seen: LldpNeighbor) -> bool:
    """Return whether a neighbour's port is a planned one: by its ID or its description."""
    return planned.lower() in (seen.port.lower(), seen.port_description.lower())


def planned_for(own: Node, nodes: Sequence[Node], seen: LldpNeighbor) -> str:
    """Return the rail that the site plans where this neighbour is, empty if there is none.

    Without ports in the plan, only another rail of the same node tells something.
    """
    for rail in own.rails:
        if rail.leaf and is_planned(rail, seen):
            return f"rail {rail.index}"
    for node in nodes:
        for rail in node.rails:
            if rail.leaf and rail.switch_port and is_planned(rail, seen):
                return f"{node.name} rail {rail.index}"
    return ""


def astray_of_groups(cabled: Sequence[CabledRail]) -> Iterator[AstrayRail]:
    """Yield rails on another switch than most of the same fabric_leaf and rail."""
    for (group, index), own in _by_group(cabled).items():
        switch, most = Counter(each.switch for each in own).most_common(1)[0]
        for each in own if most * 2 > len(own) else ():
            if each.switch != switch:
                why = f"as rail {index} of {most} of {len(own)} nodes of fabric_leaf {group}"
                swapped = _rail_at(each, switch, cabled)
                seen = f"{each.switch}, swapped with {swapped}" if swapped else each.switch
                yield AstrayRail(each, seen, switch, why)


def split_groups(cabled: Sequence[CabledRail]) -> Iterator[tuple[CabledRail, str]]:
    """Yield a rail of each group of which no switch has most, and where the group is."""
    for own in _by_group(cabled).values():
        counts = Counter(each.switch for each in own)
        if max(counts.values()) * 2 <= len(own):
            by_switch: dict[str, list[str]] = defaultdict(list)
            for each in own:
                by_switch[each.switch].append(each.node.name)
            yield own[0], ", ".join(f"{at} ({fold_names(who)})" for at, who in by_switch.items())


def _by_group(cabled: Sequence[CabledRail]) -> dict[tuple[str, int], list[CabledRail]]:
    found: dict[tuple[str, int], list[CabledRail]] = defaultdict(list)
    for each in cabled:
        found[each.group, each.rail.index].append(each)
    return found


def _rail_at(one: CabledRail, switch: str, cabled: Sequence[CabledRail]) -> str:
    """Return the rail of the same node that is on a switch, empty if none is."""
    others = (each for each in cabled if each.node is one.node and each.switch == switch)
    return next((f"rail {each.rail.index}" for each in others), "")


def astray_of_switches(cabled: Sequence[CabledRail]) -> Iterator[AstrayRail]:
    """Yield rails on a switch that has other rails of most of its nodes.

    So two rails on one switch, or exchanged ones, are found without any plan. Where each node has
    all rails on one switch, each switch has the same of all. Nodes with as many rails are compared.
    """
    for switch, nodes in _by_switch(cabled):
        rails = {name: tuple(each.rail.index for each in own) for name, own in nodes.items()}
        usual, most = Counter(rails.values()).most_common(1)[0]
        if len(set(rails.values())) == 1:
            continue
        decided = most * 2 > len(rails)
        for each in (each for own in nodes.values() for each in own):
            if decided and each.rail.index in usual:
                continue
            expected = f"one with rail {_listed((each.rail.index,))} of other nodes"
            why = f"as it has rail {_listed(usual)} of {most} of {len(rails)} nodes"
            if not decided:
                expected = "one with the same rails of each node"
                why = ", ".join(f"rail {_listed(own)} of {name}" for name, own in rails.items())
            yield AstrayRail(each, switch, expected, why)
            if not decided:
                break


def _by_switch(cabled: Sequence[CabledRail]) -> Iterator[tuple[str, dict[str, list[CabledRail]]]]:
    """Yield each switch, and by node the rails that it has there, of nodes with as many rails."""
    sizes = Counter(each.node.name for each in cabled)
    found: dict[tuple[str, int], dict[str, list[CabledRail]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for each in cabled:
        found[each.switch, sizes[each.node.name]][each.node.name].append(each)
    for (switch, _), nodes in found.items():
        yield switch, nodes


def _listed(rails: Sequence[int]) -> str:
    return ", ".join(map(str, rails))
