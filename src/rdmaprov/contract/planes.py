"""Rails across nodes: rail i of every node is on the same network plane."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rdmaprov.contract.rails import PLAN, is_routed
from rdmaprov.contract.rule import FleetRule, Violation
from rdmaprov.inventory.model import Node, Rail

_RAILS = "fabric_rails"


def _addresses(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    seen: dict[object, tuple[Node, Rail]] = {}
    for node in nodes:
        for rail in node.rails:
            if rail.address is None:
                continue
            if rail.address.ip in seen:
                other, at = seen[rail.address.ip]
                message = (
                    f"{rail.address.ip} is also the address of rail {at.index} of {other.name}"
                )
                remedy = "write an address that no other rail has"
                yield node, Violation(_RAILS, message, remedy, (rail.index, "address"))
            seen.setdefault(rail.address.ip, (node, rail))


def _planes(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    first: dict[tuple[str, int], tuple[Node, Rail]] = {}
    for node in nodes:
        for plane, rail in node.planes.items():
            if rail.address is None:
                continue
            other, one = first.setdefault(plane, (node, rail))
            routed = is_routed(node, rail) and is_routed(other, one)
            if one.address is None or one.address.network == rail.address.network or routed:
                continue
            message = (
                f"rail {rail.index} is in {rail.address.network}, "
                f"but in {one.address.network} on {other.name}"
            )
            remedy = f"put rail {rail.index} of all nodes into one subnet, or write its gateways"
            yield node, Violation(_RAILS, message, remedy, (rail.index, "address"))


def _separate_subnets(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    owner: dict[object, tuple[tuple[str, int], int]] = {}
    for node in nodes:
        for plane, rail in node.planes.items():
            if rail.address is None:
                continue
            first, index = owner.setdefault(rail.address.network, (plane, rail.index))
            if first != plane:
                low, high = sorted((index, rail.index))
                message = f"rails {low} and {high} share {rail.address.network}"
                remedy = "give each rail its own subnet; or waive the rule (fabric_waivers) where "
                remedy += "one subnet for all is meant and fabric_source_routing keeps rails apart"
                yield node, Violation(_RAILS, message, remedy, (rail.index, "address"))


def _neighbors(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    members = Counter(r.address.network for n in nodes for r in n.rails if r.address is not None)
    for node in nodes:
        need = sum(members[rail.address.network] - 1 for rail in node.rails if rail.address)
        entries = node.get("fabric_neighbor_entries")
        held = 512 if entries == 0 else entries  # half of the kernel's gc_thresh3
        if isinstance(held, int) and need > held:
            message = f"{held} are too few for {need} neighbors in the subnets of the node's rails"
            yield node, Violation("fabric_neighbor_entries", message, f"write {2 * need}")


def _switch_ports(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    first: dict[tuple[str, str], tuple[Node, Rail]] = {}
    for node in nodes:
        for rail in node.rails:
            if not rail.leaf or not rail.switch_port:
                continue
            key = rail.leaf.lower(), rail.switch_port.lower()
            other, one = first.setdefault(key, (node, rail))
            if one is not rail:
                message = (
                    f"{rail.leaf} {rail.switch_port} is the port of rail {rail.index}, and of "
                    f"rail {one.index} of {other.name}"
                )
                remedy = "write the port of each rail, such as by a template of its node"
                yield node, Violation(_RAILS, message, remedy, (rail.index, "switch_port"))


RULES = (
    FleetRule(
        "rails.addresses",
        "Each address is used once in the fleet.",
        "RFC 5227, section 1",
        _addresses,
    ),
    FleetRule("rails.plane", "Rail i of all nodes is in one subnet, or routed.", PLAN, _planes),
    FleetRule(
        "rails.switch-ports",
        "Each port of a switch has one rail.",
        "IEEE 802.1AB, 9.5.3: a port ID is unique within its chassis",
        _switch_ports,
    ),
    FleetRule(
        "rails.neighbors",
        "The neighbor tables hold all nodes in the subnets of a node's rails.",
        "man arp.7: gc_thresh3; Linux net/core/neighbour.c",
        _neighbors,
    ),
    FleetRule("rails.apart", "Different rails are in different subnets.", PLAN, _separate_subnets),
)
