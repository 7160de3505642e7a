"""A site's own floor of the acceptance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rdmaprov.acceptance.fabric import Fabric
from rdmaprov.acceptance.floor import derive, figure
from rdmaprov.contract.rule import Finding, FleetRule
from rdmaprov.inventory.model import Node

_FLOOR, _REASON = "fabric_floor_gb_s", "fabric_floor_reason"
_DOCS = "docs/acceptance.md, The floor"


def fabric(node: Node, nodes: int) -> Fabric | None:
    """Return what an all-reduce over so many nodes like this runs over; None if it is not known."""
    link = node.get("fabric_link_gbps")
    over = node.get("fabric_oversubscription")
    if not node.rails or not link or not over or over < 1 or nodes < 2:
        return None
    mapped = {gpu for rail in node.rails for gpu in rail.gpus}
    # A site that says nothing of GPUs has enough of them to fill the rails.
    gpus = node.get("fabric_gpu_count") or len(mapped) or len(node.rails)
    return Fabric(nodes, gpus, len(node.rails), link, over)


def _floors(nodes: Sequence[Node]) -> Iterator[tuple[Node, Finding]]:
    for node in nodes:
        demanded = node.get(_FLOOR)
        parts = fabric(node, len(nodes))
        if parts is None or not isinstance(demanded, (int, float)) or demanded <= 0:
            continue
        wanted = derive(parts)
        if demanded > wanted.ceiling_gb_s:
            message = f"{demanded:g} GB/s is more than the rails carry, "
            message += f"{figure(wanted.ceiling_gb_s)}"
            yield node, Finding(_FLOOR, message, "write GB/s; Gb/s are eight times as many")
        elif demanded < wanted.floor_gb_s and not node.get(_REASON):
            message = f"{demanded:g} GB/s is below the derived floor, {figure(wanted.floor_gb_s)}"
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
