"""Judge on which switch each rail is, against the plan: wrong leaves, swapped cables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from rdmaprov.finding.finding import Finding
from rdmaprov.runs.groups import fold_names
from rdmaprov.site_subnet.join import Joined, RailPort
from rdmaprov.site_subnet.plan import PlannedRail, SubnetPlan
from rdmaprov.subnet.fabric import SubnetGraph
from rdmaprov.subnet.problem import at, unknown, wrong


def expected_leaves(plan: SubnetPlan, joined: Joined) -> dict[PlannedRail, str]:
    """Return the switch of each rail: as the site says, or where most of its fabric_leaf are."""
    groups: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    for rail, port in joined.ports.items():
        if rail.group:
            groups[rail.group, rail.index][port.leaf] += 1
    found = {}
    for rail in plan.rails:
        count = groups.get((rail.group, rail.index), Counter())
        leaf, most = next(iter(count.most_common(1)), ("", 0))
        if rail.leaf:
            found[rail] = rail.leaf
        elif most * 2 > count.total():
            found[rail] = leaf
    return found


def leaf_findings(
    plan: SubnetPlan, joined: Joined, leaves: dict[PlannedRail, str]
) -> Iterator[Finding]:
    """Yield the rails that are on another switch than expected, with whom they are swapped."""
    astray = {
        rail: port
        for rail, port in joined.ports.items()
        if rail in leaves and port.leaf != leaves[rail]
    }
    for rail, port in astray.items():
        text = f"on {port.leaf} port {port.hca.port}, expected on {leaves[rail]}"
        if swapped := _swapped(rail, port, astray, leaves):
            text += f"; swapped with {swapped.label}"
        elif not rail.leaf:
            text += f", as the other nodes of fabric_leaf {rail.group}"
        problem = wrong("subnet.cabling", port.hca.end.name, port.hca.end.port, text)
        yield at(problem, rail.node, rail.index)
    yield from _split_groups(plan, joined, leaves)


def _swapped(
    rail: PlannedRail,
    port: RailPort,
    astray: dict[PlannedRail, RailPort],
    leaves: dict[PlannedRail, str],
) -> PlannedRail | None:
    """Return the rail that is where this one is expected, and the other way round."""
    others = [
        other
        for other, its in astray.items()
        if other != rail and its.leaf == leaves[rail] and leaves[other] == port.leaf
    ]
    of_node = [other for other in others if other.node == rail.node]
    return next(iter(of_node or others), None)


def _split_groups(
    plan: SubnetPlan, joined: Joined, leaves: dict[PlannedRail, str]
) -> Iterator[Finding]:
    """Yield the groups of nodes with one fabric_leaf of which no switch has most."""
    groups: dict[tuple[str, int], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for rail in plan.rails:
        if rail.group and rail not in leaves and rail in joined.ports:
            groups[rail.group, rail.index][joined.ports[rail].leaf].append(rail.node)
    for (group, index), by_leaf in groups.items():
        where = ", ".join(f"{leaf} ({fold_names(nodes)})" for leaf, nodes in by_leaf.items())
        text = f"rail {index} of fabric_leaf {group} is on {len(by_leaf)} switches: {where}"
        yield wrong("subnet.cabling", f"fabric_leaf {group}", None, text)


def spine_findings(
    plan: SubnetPlan, fabrics: list[SubnetGraph], *, is_partial: bool
) -> Iterator[Finding]:
    """Yield the switches above the leaves that are missing or not in the plan.

    Args:
        is_partial: whether a rail has another subnet, in which its spines then are.
    """
    if not plan.spines:
        return
    names = {end.name for fabric in fabrics for end in fabric.switches}
    absent = [spine for spine in plan.spines if spine not in names]
    if absent and is_partial:
        text = f"switches {fold_names(absent)} are not in what was read (fabric_spines)"
        yield unknown("fabric_spines", text)
    for spine in [] if is_partial else absent:
        text = f"switch {spine} is missing (fabric_spines)"
        yield wrong("subnet.missing", spine, None, text)
    planned = {*plan.spines, *(rail.leaf for rail in plan.rails)}
    for fabric in fabrics:
        for number, level in enumerate(fabric.levels):
            if level and fabric.switches[number].name not in planned:
                text = "has no rail of the site, and is not in fabric_spines"
                yield wrong("subnet.extra", fabric.label(number), None, text)
