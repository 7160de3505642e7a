"""What netplan's files say of a network device.

Source: netplan's YAML reference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

from rdmaprov.facts.errors import CouldNotTell

_KINDS = ("ethernets", "bonds", "vlans")


def entries(texts: Sequence[tuple[str, str]], netdev: str) -> list[tuple[str, dict[str, Any]]]:
    """Return each file's definition of a device, in the order of the files.

    A definition has any name if it says by set-name, or by its match, which device it is for; the
    role writes into the one that it found, in a file with the device's name.

    Args:
        texts: path and text of each file.

    Raises:
        CouldNotTell: a file is not netplan's YAML.

    """
    files = [(path, _definitions(path, text)) for path, text in texts]
    names = {netdev}
    for path, definitions in files:
        is_ours = re.search(rf"/9[01]-rdmaprov-(mtu-)?{re.escape(netdev)}\.yaml$", path)
        names |= {
            name for name, entry in definitions.items() if is_ours or netdev in _devices(entry)
        }
    return [
        (path, entry)
        for path, definitions in files
        for name, entry in definitions.items()
        if name in names
    ]


def _devices(entry: dict[str, Any]) -> tuple[object, ...]:
    match = entry.get("match")
    return entry.get("set-name"), match.get("name") if isinstance(match, dict) else None


def _definitions(path: str, text: str) -> dict[str, dict[str, Any]]:
    try:
        network = (yaml.safe_load(text) or {})["network"]
        return {
            name: dict(entry or {})
            for kind in _KINDS
            for name, entry in (network.get(kind) or {}).items()
        }
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise CouldNotTell(f"{path}: not netplan's YAML") from error
