"""The floor that a site sets itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rdmaprov.bandwidth.fabric import FabricError
from rdmaprov.bandwidth.floor import derive
from rdmaprov.bandwidth.rates import format_gb_s
from rdmaprov.bandwidth.site import site_fabric
from rdmaprov.contract.rule import FleetRule, Violation
from rdmaprov.inventory.model import Node

_FLOOR, _REASON = "fabric_floor_gb_s", "fabric_floor_reason"
_DOCS = "docs/acceptance.md, The floor"


def _site_floor(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    try:
        wanted = derive(site_fabric(nodes))
    except FabricError:  # other rules say which variable is missing or wrong
        return
    for node in nodes:
        demanded = node.get(_FLOOR)
        if not isinstance(demanded, (int, float)) or demanded <= 0:
            continue
        if demanded > wanted.ceiling_gb_s:
            message = f"{demanded:g} GB/s exceeds the ceiling, "
            message += f"{format_gb_s(wanted.ceiling_gb_s)} for these rails"
            yield node, Violation(_FLOOR, message, "write it in GB/s: divide Gb/s by 8")
        elif demanded < wanted.floor_gb_s and not node.get(_REASON):
            message = f"{demanded:g} GB/s is below the derived floor, "
            message += format_gb_s(wanted.floor_gb_s)
            yield (
                node,
                Violation(_FLOOR, message, f"write the reason into {_REASON}, or remove the line"),
            )


def _floor_reason(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    for node in nodes:
        if node.get(_REASON) and not node.get(_FLOOR):
            message = f"there is a reason, but {_FLOOR} is not set"
            yield node, Violation(_REASON, message, f"write {_FLOOR}, or remove the line")


RULES = (
    FleetRule(
        "acceptance.floor",
        "A site's own floor is at most the ceiling, and has a reason "
        "if it is below the derived floor.",
        _DOCS,
        _site_floor,
    ),
    FleetRule(
        "acceptance.reason", "A site that gives a reason also sets a floor.", _DOCS, _floor_reason
    ),
)
