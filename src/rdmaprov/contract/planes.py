"""Rails of all nodes: rail i is one network plane."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rdmaprov.contract.rails import PLAN
from rdmaprov.contract.rule import Finding, FleetRule
from rdmaprov.inventory.model import Node, Rail

_RAILS = "fabric_rails"


def _addresses(nodes: Sequence[Node]) -> Iterator[tuple[Node, Finding]]:
    seen: dict[object, tuple[Node, Rail]] = {}
    for node in nodes:
        for rail in node.rails:
            if rail.address is None:
                continue
            if rail.address.ip in seen:
                other, at = seen[rail.address.ip]
                message = f"{rail.address.ip} is also rail {at.index} of {other.name}"
                remedy = "give each rail of the fleet its own address"
                yield node, Finding(_RAILS, message, remedy, (rail.index, "address"))
            seen.setdefault(rail.address.ip, (node, rail))


def _planes(nodes: Sequence[Node]) -> Iterator[tuple[Node, Finding]]:
    first: dict[int, tuple[Node, Rail]] = {}
    for node in nodes:
        for rail in node.rails:
            if rail.address is None:
                continue
            other, one = first.setdefault(rail.index, (node, rail))
            routed = rail.gateway and one.gateway
            if one.address is None or one.address.network == rail.address.network or routed:
                continue
            message = (
                f"rail {rail.index} is in {rail.address.network}, "
                f"and in {one.address.network} on {other.name}"
            )
            remedy = "write one subnet for each rail, or the gateway of each"
            yield node, Finding(_RAILS, message, remedy, (rail.index, "address"))


def _apart(nodes: Sequence[Node]) -> Iterator[tuple[Node, Finding]]:
    owner: dict[object, int] = {}
    for node in nodes:
        for rail in node.rails:
            if rail.address is None:
                continue
            first = owner.setdefault(rail.address.network, rail.index)
            if first != rail.index:
                message = f"{rail.address.network} holds rail {rail.index} and rail {first}"
                remedy = "write another subnet for each rail"
                yield node, Finding(_RAILS, message, remedy, (rail.index, "address"))


RULES = (
    FleetRule("rails.addresses", "No address is given twice in the fleet.",
              "RFC 5227, section 1", _addresses),
    FleetRule("rails.plane", "Rail i of all nodes is in one subnet, or routed.", PLAN, _planes),
    FleetRule("rails.apart", "Different rails are in different subnets.", PLAN, _apart),
)  # fmt: skip
