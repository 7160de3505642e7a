"""What no two nodes of a certificate may have in common: one machine must not stand for two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rdmaprov.finding.finding import Finding

_MACHINE = {"serial": "serial number", "uuid": "UUID", "board_serial": "mainboard's serial number"}


def equal_objections(predicate: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the host keys, serial numbers, UUIDs and GUIDs that several nodes say they have."""
    owners: dict[tuple[str, str], dict[str, None]] = {}
    for name, own in predicate["nodes"].items():
        for part in _parts(own):
            owners.setdefault(part, {})[name] = None
    for (what, value), names in owners.items():
        if value and len(names) > 1:
            text = f"have the same {what}: {value}"
            yield Finding("certificate.equal", text, nodes=tuple(names), level="node")


def _parts(own: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a node alone must have: of what kind, and its value."""
    identity = own["identity"]
    for key in own["host_keys"]:
        yield "host key", key
    for field, word in _MACHINE.items():
        yield word, identity["machine"][field]
    for rail in identity["rails"]:
        yield "GUID of a NIC", rail["guid"]
    for gpu in identity["gpus"]:
        if "?" not in gpu["uuid"]:  # the driver does not show it
            yield "UUID of a GPU", gpu["uuid"]
