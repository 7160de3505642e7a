"""The cables of RoCE rails: the switch and port of each, as the switch announces them by LLDP.

On InfiniBand, `rdmaprov subnet` compares the cables with the plan.
"""

from collections.abc import Callable, Iterator, Mapping

import pytest
from testinfra.host import Host

from rdmaprov.inventory import Fleet, Node, Rail
from rdmaprov.validate import cabling, neighbor
from rdmaprov.validate.cabling import CabledRail
from rdmaprov.validate.verdict import Setting, needs_roce, not_applicable, settle

pytestmark = pytest.mark.links

_VARIABLE = "fabric_rails"
_MOVE = "move the cable, or correct the plan"


def test_rail_is_on_its_switch_port(host: Host, node: Node, rail: Rail, fleet: Fleet) -> None:
    """The rail is cabled to the leaf, and to the port of it, that the site plans."""
    needs_roce(node, "LLDP")
    if not rail.leaf:
        not_applicable("the site does not say the rail's switch (fabric_rails, leaf)")
    ends = list(neighbor.of_rail(host, node, rail))
    wrong = [each for each in ends if not cabling.is_switch(rail.leaf, each.seen)]
    # A bond has one planned port, and is on others too.
    if not wrong and not any(cabling.is_planned(rail, each.seen) for each in ends):
        wrong = ends
    for each in wrong:
        whose = cabling.planned_for(node, fleet.nodes, each.seen)
        seen = f"{each.seen.label}, planned for {whose}" if whose else each.seen.label
        each.setting("neighbour", _VARIABLE, _MOVE).reject(
            seen, f"{rail.leaf} {rail.switch_port}".rstrip()
        )


def test_nodes_of_one_leaf_share_switches(fleet: Fleet, hosts: Mapping[str, Host]) -> None:
    """Rail i of all nodes with one fabric_leaf is on one switch, where the site plans none."""
    cabled, unknown = _cabled(fleet, hosts, lambda node: bool(node.get("fabric_leaf")))
    failures = [
        _setting(one.cabled).text(one.seen, f"{one.expected}, {one.why}")
        for one in cabling.astray_of_groups(cabled)
    ]
    failures += [
        _setting(each).text(f"one of {places}", f"one for fabric_leaf {each.group}")
        for each, places in cabling.split_groups(cabled)
    ]
    settle(failures, unknown)


def test_switches_have_the_same_rails_of_each_node(fleet: Fleet, hosts: Mapping[str, Host]) -> None:
    """Each switch has the same rails of all of its nodes, where the site says no fabric_leaf."""
    cabled, unknown = _cabled(fleet, hosts, lambda node: not node.get("fabric_leaf"))
    failures = [
        _setting(one.cabled).text(one.seen, f"{one.expected}, {one.why}")
        for one in cabling.astray_of_switches(cabled)
    ]
    settle(failures, unknown)


def _cabled(
    fleet: Fleet, hosts: Mapping[str, Host], is_meant: Callable[[Node], bool]
) -> tuple[list[CabledRail], list[str]]:
    """Return the switches of RoCE rails that the site plans none for, and what is unknown.

    Of a node of which one rail is not known, none is compared: it would look as if it had fewer.
    """
    nodes = [node for node in fleet.nodes if is_meant(node) and any(_unplanned(node))]
    if len(nodes) < 2:
        not_applicable("fewer than two nodes have RoCE rails to compare without a plan")
    found: list[CabledRail] = []
    unknown = []
    for node in nodes:
        try:
            found += _of_node(hosts[node.name], node)
        except pytest.skip.Exception:
            continue
        except Exception as error:  # each kind of connection has its own
            unknown.append(f"{node.name}: {getattr(error, 'why', error)}")
    if len({each.node.name for each in found}) < 2 and not unknown:
        not_applicable("fewer than two nodes know the neighbours of all rails")
    return found, unknown


def _of_node(host: Host, node: Node) -> list[CabledRail]:
    found = []
    for rail in _unplanned(node):
        ports = list(neighbor.of_rail(host, node, rail))
        switch = " + ".join(dict.fromkeys(each.seen.switch for each in ports))
        found.append(CabledRail(node, rail, ports[0], switch))
    return found


def _unplanned(node: Node) -> Iterator[Rail]:
    if node.get("fabric_kind") == "roce":
        yield from (rail for rail in node.rails if not rail.leaf)


def _setting(cabled: CabledRail) -> Setting:
    return cabled.port.setting(f"switch of rail {cabled.rail.index}", _VARIABLE, _MOVE)
