"""The plan of an InfiniBand subnet: devices and leaves of rails, spines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from rdmaprov.contract.rails import PLAN
from rdmaprov.contract.rule import FleetRule, Rule, Violation, is_roce
from rdmaprov.inventory.model import Node

_ADAPTIVE, _VARIABLE = "fabric_adaptive_routing", "NCCL_IB_ADAPTIVE_ROUTING"
_LEVEL = "fabric_service_level"
_ROUTING_SOURCE = "NCCL docs, env.rst: NCCL_IB_ADAPTIVE_ROUTING"
_SHARP, _ENV = "fabric_sharp", "nccl_environment"
# A node sends and receives S by SHARP, and 2 (n - 1) / n of S by a ring: on two nodes the same.
_LEAST_NODES = 3
_RAILS = "fabric_rails"
_SPINES = "fabric_spines"
# A device: Linux include/rdma/ib_verbs.h, IB_DEVICE_NAME_MAX with its final zero.
_DEVICE = re.compile(r"[\w.-]{1,63}")


def _service_level(node: Node) -> Iterator[Violation]:
    if node.get(_ADAPTIVE) == "on" and not is_roce(node) and _LEVEL not in node.written:
        message = f"adaptive routing is on, and the site names no {_LEVEL}"
        remedy = f"write {_LEVEL}: one for which the subnet manager has adaptive routing on"
        yield Violation(_ADAPTIVE, message, remedy, (), (_LEVEL,))


def _once(node: Node) -> Iterator[Violation]:
    wanted = {"on": "1", "off": "0"}.get(str(node.get(_ADAPTIVE)))
    written = (node.get(_ENV) or {}).get(_VARIABLE)
    if wanted is not None and written is not None and str(written) != wanted:
        message = f"{_ADAPTIVE} is {node.get(_ADAPTIVE)}, but {_VARIABLE} is {written}"
        yield Violation(_ENV, message, f"remove it: rdmaprov sets {_VARIABLE}", (_VARIABLE,))


ADAPTIVE_ROUTING_RULES = (
    Rule(
        "adaptive-routing.service-level",
        "With adaptive routing, the site names the service level that has it.",
        _ROUTING_SOURCE,
        _service_level,
    ),
    Rule(
        "adaptive-routing.once",
        "NCCL is told once whether to allow adaptive routing.",
        _ROUTING_SOURCE,
        _once,
    ),
)


def _wanted(node: Node) -> bool:
    return bool(node.get(_SHARP) == "wanted")


def _kind(node: Node) -> Iterator[Violation]:
    if _wanted(node) and is_roce(node):
        message = "SHARP is wanted, but fabric_kind is roce"
        yield Violation(_SHARP, message, "remove the line: InfiniBand's switches alone reduce")


def _collnet(node: Node) -> Iterator[Violation]:
    written = (node.get(_ENV) or {}).get("NCCL_COLLNET_ENABLE")
    if _wanted(node) and written is not None and str(written) != "1":
        message = f"SHARP is wanted, but NCCL_COLLNET_ENABLE is {written}"
        remedy = "remove it: rdmaprov sets NCCL_COLLNET_ENABLE=1"
        yield Violation(_ENV, message, remedy, ("NCCL_COLLNET_ENABLE",))


def _enough(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    wanting = [node for node in nodes if _wanted(node) and not is_roce(node)]
    if wanting and len(nodes) < _LEAST_NODES:
        message = f"SHARP is wanted on {len(nodes)} nodes, between which a ring moves as much"
        yield wanting[0], Violation(_SHARP, message, "remove the line, or add nodes")


SHARP_RULES = (
    Rule("sharp.kind", "SHARP is wanted on InfiniBand alone.",
         "NVIDIA SHARP documentation: Quantum switches", _kind),
    Rule("sharp.collnet", "Where SHARP is wanted, NCCL's CollNet is on.",
         "NCCL docs, env.rst: NCCL_COLLNET_ENABLE", _collnet),
    FleetRule("sharp.nodes", "SHARP is wanted on three nodes or more.",
              "nccl-tests, doc/PERFORMANCE.md: 2 (n - 1) / n is 1 for two", _enough),
)  # fmt: skip


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
