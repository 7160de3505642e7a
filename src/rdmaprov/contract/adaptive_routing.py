"""Adaptive routing of NCCL's data: a service level that has it, and no second word."""

from __future__ import annotations

from collections.abc import Iterator

from rdmaprov.contract.rule import Rule, Violation, is_roce
from rdmaprov.inventory.model import Node

_ADAPTIVE, _ENV, _VARIABLE = (
    "fabric_adaptive_routing",
    "nccl_environment",
    "NCCL_IB_ADAPTIVE_ROUTING",
)
_LEVEL = "fabric_service_level"
_NCCL = "NCCL docs, env.rst: NCCL_IB_ADAPTIVE_ROUTING"


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


RULES = (
    Rule(
        "adaptive-routing.service-level",
        "With adaptive routing, the site names the service level that has it.",
        _NCCL,
        _service_level,
    ),
    Rule(
        "adaptive-routing.once",
        "NCCL is told once whether to allow adaptive routing.",
        _NCCL,
        _once,
    ),
)
