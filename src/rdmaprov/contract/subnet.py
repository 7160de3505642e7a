"""The plan of an InfiniBand subnet: devices and leaves of rails, spines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from rdmaprov.contract.rails import PLAN
from rdmaprov.contract.rule import FleetRule, Rule, Violation
from rdmaprov.inventory.model import Node

_RAILS = "fabric_rails"
_SPINES = "fabric_spines"
# A device: Linux include/rdma/ib_verbs.h, IB_DEVICE_NAME_MAX with its final zero.
_DEVICE = re.compile(r"[\w.-]{1,63}")


def _devices(node: Node) -> Iterator[Violation]:
    for rail in node.rails:
        if rail.rdma and not _DEVICE.fullmatch(rail.rdma):
            message = f"'{rail.rdma}' is not the name of an RDMA device"
            remedy = "write the name that `ibstat -l` shows, such as mlx5_0"
            yield Violation(_RAILS, message, remedy, (rail.index, "rdma"))
    named = [bool(rail.rdma) for rail in node.rails]
    if any(named) and not all(named):
        index = named.index(False)
        message = f"rail {index} has no rdma, and others have"
        yield Violation(_RAILS, message, "write it for all rails of the node, or none", (index,))


def _leaves(node: Node) -> Iterator[Violation]:
    for rail in node.rails:
        if rail.leaf and rail.leaf in (node.get(_SPINES) or ()):
            message = f"{rail.leaf} is the leaf of rail {rail.index}, and in {_SPINES}"
            remedy = "write it in one of the two"
            yield Violation(_RAILS, message, remedy, (rail.index, "leaf"))


def _spines_once(node: Node) -> Iterator[Violation]:
    for name, count in Counter(node.get(_SPINES) or ()).items():
        if count > 1:
            yield Violation(_SPINES, f"{name} is listed {count} times", "write it once")


def _same_spines(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    first: Node | None = None
    for node in nodes:
        first = first or node
        if set(node.get(_SPINES) or ()) != set(first.get(_SPINES) or ()):
            message = f"the spines are not those of {first.name}"
            yield node, Violation(_SPINES, message, "write them once, for all nodes")


RULES = (
    Rule(
        "subnet.devices",
        "Either every rail of a node has the name of its RDMA device, or none.",
        "Linux include/rdma/ib_verbs.h: IB_DEVICE_NAME_MAX; rdma-core, rdma-ndd(8)",
        _devices,
    ),
    Rule("subnet.leaves", "The leaf of a rail is no spine.", PLAN, _leaves),
    Rule(
        "subnet.spines-once",
        "Each spine is listed once.",
        "InfiniBand Architecture 1.5, 14.2.5.2: NodeDescription",
        _spines_once,
    ),
    FleetRule("subnet.spines", "All nodes have the same spines above them.", PLAN, _same_spines),
)
