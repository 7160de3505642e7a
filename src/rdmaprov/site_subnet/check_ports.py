"""Judge the ports of rails against the plan: missing, extra, and slower than the site says."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from rdmaprov.finding.finding import Finding
from rdmaprov.runs.groups import fold_names
from rdmaprov.site_subnet.join import Joined, RailPort
from rdmaprov.site_subnet.plan import PlannedRail, SubnetPlan
from rdmaprov.subnet.fabric import SubnetGraph
from rdmaprov.subnet.problem import at, unknown, wrong
from rdmaprov.words import quantity, some

_PAIR = 2  # nodes: a rail that none of them has is another subnet's


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


def missing_findings(
    plan: SubnetPlan, joined: Joined, leaves: dict[PlannedRail, str], switches: frozenset[str]
) -> Iterator[Finding]:
    """Yield the rails that are not in the subnet: by switch, by node, then one by one."""
    absent = _absent(plan, joined)
    if joined.nameless and absent:
        text = f"{quantity(len(absent), 'rail')} not found by name"
        count = quantity(joined.nameless, "HCA")
        more = f"{count} in the subnet {'has' if joined.nameless == 1 else 'have'} no host name"
        remedy = "start rdma-ndd on their hosts"
        yield unknown("node descriptions", f"{text}: {more}; {remedy}")
        return
    planes, absent = _split(absent, _absent_planes(plan, absent))
    for index in sorted({rail.index for rail in planes}):
        text = f"rail {index}: no node has it here; is it in a subnet of its own? See --device"
        yield unknown(f"rail {index}", text)
    # Those whose leaf is not there either are told with it.
    gone, absent = _split(
        absent, frozenset(each for each in absent if leaves.get(each, "") not in {"", *switches})
    )
    yield from _of_leaves(gone, leaves)
    yield from _of_nodes(plan, absent, leaves)


def is_partial(plan: SubnetPlan, joined: Joined) -> bool:
    """Return whether a rail of all nodes is in a subnet that was not read."""
    return bool(_absent_planes(plan, _absent(plan, joined)))


def _absent(plan: SubnetPlan, joined: Joined) -> list[PlannedRail]:
    return [rail for rail in plan.rails if rail not in joined.ports and rail not in joined.unnamed]


def _split(
    rails: list[PlannedRail], chosen: frozenset[PlannedRail]
) -> tuple[list[PlannedRail], list[PlannedRail]]:
    """Return the chosen rails and the others."""
    return [each for each in rails if each in chosen], [
        each for each in rails if each not in chosen
    ]


def _absent_planes(plan: SubnetPlan, absent: list[PlannedRail]) -> frozenset[PlannedRail]:
    """Return the rails that no node has, if others are there and the plan has several nodes."""
    there = {rail.index for rail in set(plan.rails) - set(absent)}
    if not there or len(plan.nodes) < _PAIR:
        return frozenset()
    return frozenset(rail for rail in absent if rail.index not in there)


def _of_leaves(gone: list[PlannedRail], leaves: dict[PlannedRail, str]) -> Iterator[Finding]:
    for leaf in dict.fromkeys(leaves[rail] for rail in gone):
        with_it = [rail for rail in gone if leaves[rail] == leaf]
        rails = ", ".join(map(str, sorted({rail.index for rail in with_it})))
        text = f"switch {leaf} is missing, and with it rail {rails} of {_names(with_it)}"
        yield wrong("subnet.missing", leaf, None, text)


def _of_nodes(
    plan: SubnetPlan, absent: list[PlannedRail], leaves: dict[PlannedRail, str]
) -> Iterator[Finding]:
    by_node: dict[str, list[PlannedRail]] = defaultdict(list)
    for rail in absent:
        by_node[rail.node].append(rail)
    for node, rails in by_node.items():
        if len(rails) > 1 and len(rails) == sum(each.node == node for each in plan.rails):
            text = f"all {len(rails)} rails are missing: the node is off, or its ports are down"
            yield at(wrong("subnet.node", node, None, text, rails=len(rails)), node)
            continue
        for rail in rails:
            where = f", expected on {leaves[rail]}" if leaves.get(rail) else ""
            text = f"{rail.label} is missing: no link, or the port is down{where}"
            problem = wrong("subnet.missing", f"{node} {rail.device}".strip(), None, text)
            yield at(problem, node, rail.index)


def unnamed_findings(joined: Joined) -> Iterator[Finding]:
    """Yield the nodes of whose rails no device is known."""
    reasons: dict[str, set[str]] = defaultdict(set)
    for rail, why in joined.unnamed.items():
        reasons[why].add(rail.node)
    for why, nodes in reasons.items():
        yield unknown(fold_names(nodes), f"rails are not known: {why}")


def extra_findings(joined: Joined) -> Iterator[Finding]:
    """Yield the HCAs that are no rail's, and the hosts that are not in the inventory."""
    for node, port in joined.extra:
        text = f"{port.hca.at.device} on {_place(port)} is no rail of {node} (fabric_rails)"
        yield at(wrong("subnet.extra", port.hca.end.name, port.hca.end.port, text), node)
    hosts: dict[str, list[RailPort]] = defaultdict(list)
    for port in joined.strangers:
        hosts[port.hca.at.host].append(port)
    for host, ports in sorted(hosts.items()):
        where = some(map(_place, ports), 1)
        text = f"on {where}, and not in the inventory; is it one of fabric_other_hosts?"
        yield wrong("subnet.extra", host, None, text)


def slow_findings(ports: dict[PlannedRail, RailPort]) -> Iterator[Finding]:
    """Yield the rails whose link is slower than the site says."""
    for rail, port in ports.items():
        cable = port.hca.cable
        if cable.gbps and cable.gbps < rail.gbps:
            rate = f"{cable.rate()} ({cable.gbps:g} Gb/s)"
            text = f"{rate} to {_place(port)}, expected {rail.gbps} Gb/s"
            rates = {"gbps": cable.gbps, "expected_gbps": rail.gbps}
            problem = wrong("subnet.rate", port.hca.end.name, port.hca.end.port, text, **rates)
            yield at(problem, rail.node, rail.index)
        elif not cable.gbps:
            text = f"its rate {cable.rate()!r} is unknown to rdmaprov"
            yield at(unknown(port.hca.end.name, text), rail.node, rail.index)


def _place(port: RailPort) -> str:
    return f"{port.leaf} port {port.hca.port}"


def _names(rails: Iterable[PlannedRail]) -> str:
    return fold_names(rail.node for rail in rails)
