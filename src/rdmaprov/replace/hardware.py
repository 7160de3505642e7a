"""What a machine is made of, in words to compare; kept when it is returned to service."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rdmaprov.runs.files import write_whole
from rdmaprov.runs.results import read_json

_TICKET = "ticket"


def describe(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the parts of a machine from the collector's facts."""
    parts = {
        str(rail["device"]): ", ".join(
            f"{name} {rail[key] or 'unknown'}"
            for name, key in (
                ("PCI", "pci"),
                ("netdev", "netdev"),
                ("model", "model"),
                ("GUID", "card"),
                ("firmware", "firmware"),
                ("NUMA node", "numa_node"),
                ("Gb/s", "gbps"),
            )
        )
        for rail in facts["rails"]
    }
    gpus = [str(gpu["pci"]) for gpu in facts["gpus"]]
    memory = f"{facts['memory_bytes'] / 2**30:.0f} GiB"
    more = {"GPUs": f"{len(gpus)} at {', '.join(gpus)}" if gpus else "none", "memory": memory}
    return {**parts, **more, "NUMA nodes": str(facts["numa_nodes"]), "kernel": facts["kernel"]}


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """Yield the parts that differ between two machines."""
    for part in dict.fromkeys((*old, *new)):
        before, now = old.get(part, "absent"), new.get(part, "absent")
        if before != now:
            yield f"{part}: {before} → {now}"


def keep(directory: Path, node: str, facts: Mapping[str, Any], ticket: str = "") -> None:
    """Keep a machine's parts for its successor, and the number of what it came with."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    parts = {**describe(facts), **({_TICKET: ticket} if ticket else {})}
    write_whole(_path(directory, node), json.dumps(parts, indent=1) + "\n")


def kept(directory: Path, node: str) -> dict[str, str]:
    """Return the parts of the machine that was last kept; empty if there is none."""
    try:
        parts = read_json(_path(directory, node))
        return {str(part): str(text) for part, text in parts.items() if part != _TICKET}
    except (OSError, ValueError, AttributeError):
        return {}


def _path(directory: Path, node: str) -> Path:
    return directory / f"{node}.machine.json"
