"""A site's own floor of the acceptance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rdmaprov.bandwidth.fabric import FabricError
from rdmaprov.bandwidth.floor import derive
from rdmaprov.bandwidth.rates import format_gb_s
from rdmaprov.bandwidth.site import site_fabric
from rdmaprov.contract.rule import Finding, FleetRule
from rdmaprov.inventory.model import Node

_FLOOR, _REASON = "fabric_floor_gb_s", "fabric_floor_reason"
_DOCS = "docs/acceptance.md, The floor"


def _floors(nodes: Sequence[Node]) -> Iterator[tuple[Node, Finding]]:
    try:
        wanted = derive(site_fabric(nodes))
    except FabricError:  # other rules say which variable is missing or wrong
        return
    for node in nodes:
        demanded = node.get(_FLOOR)
        if not isinstance(demanded, (int, float)) or demanded <= 0:
            continue
        if demanded > wanted.ceiling_gb_s:
            message = f"{demanded:g} GB/s is more than the rails carry, "
            message += format_gb_s(wanted.ceiling_gb_s)
            yield node, Finding(_FLOOR, message, "write GB/s; Gb/s are eight times as many")
        elif demanded < wanted.floor_gb_s and not node.get(_REASON):
            message = f"{demanded:g} GB/s is below the derived floor, "
            message += format_gb_s(wanted.floor_gb_s)
            yield node, Finding(_FLOOR, message, f"write why: {_REASON}")


def _reasons(nodes: Sequence[Node]) -> Iterator[tuple[Node, Finding]]:
    for node in nodes:
        if node.get(_REASON) and not node.get(_FLOOR):
            message = "is a reason for no floor"
            yield node, Finding(_REASON, message, f"write {_FLOOR}, or remove it")


RULES = (
    FleetRule("acceptance.floor", "A floor of the site's own is at most what the rails carry, and "
              "has a reason if it is below the derived one.", _DOCS, _floors),
    FleetRule("acceptance.reason", "A reason has a floor.", _DOCS, _reasons),
)  # fmt: skip
