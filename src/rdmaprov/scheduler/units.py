"""Which nodes may be out of service together."""

from collections.abc import Sequence
from dataclasses import dataclass

from rdmaprov.inventory import Node

# What nodes have in common that fails as a whole, where the site says it.
_DOMAINS = ("fabric_leaf", "fabric_rack")


@dataclass(frozen=True)
class MaintenanceUnit:
    """What is maintained as one: a node, or the nodes of a rack."""

    nodes: tuple[str, ...]
    # each leaf and rack that no other unit out of service shares: it may fail as well
    domains: tuple[tuple[str, str], ...] = ()


def units(nodes: Sequence[Node]) -> list[MaintenanceUnit]:
    """Return the units of nodes, by fabric_maintenance_unit; one without a rack is its own."""
    found: dict[tuple[bool, str], list[Node]] = {}
    for node in nodes:
        is_rack = node.get("fabric_maintenance_unit") == "rack" and bool(node.get("fabric_rack"))
        name = str(node.get("fabric_rack")) if is_rack else node.name
        found.setdefault((is_rack, name), []).append(node)
    made = []
    for (is_rack, _), group in found.items():
        values = {name: group[0].get(name) for name in _DOMAINS[is_rack:]}
        domains = tuple((name, str(value)) for name, value in values.items() if value)
        made.append(MaintenanceUnit(tuple(node.name for node in group), domains))
    return made
