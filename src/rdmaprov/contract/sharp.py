"""Reduction by the switches (SHARP): where it can be, and where it is worth it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rdmaprov.contract.rule import FleetRule, Rule, Violation, is_roce
from rdmaprov.inventory.model import Node

_SHARP, _ENV = "fabric_sharp", "nccl_environment"
# A node sends and receives S by SHARP, and 2 (n - 1) / n of S by a ring: on two nodes the same.
_LEAST_NODES = 3


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


RULES = (
    Rule("sharp.kind", "SHARP is wanted on InfiniBand alone.",
         "NVIDIA SHARP documentation: Quantum switches", _kind),
    Rule("sharp.collnet", "Where SHARP is wanted, NCCL's CollNet is on.",
         "NCCL docs, env.rst: NCCL_COLLNET_ENABLE", _collnet),
    FleetRule("sharp.nodes", "SHARP is wanted on three nodes or more.",
              "nccl-tests, doc/PERFORMANCE.md: 2 (n - 1) / n is 1 for two", _enough),
)  # fmt: skip
