"""Firmware settings that would take a rail away at the next reboot."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rdmaprov.contract.rule import Rule, Violation
from rdmaprov.inventory.model import Node

_NAME = "mlx5_firmware_settings"
_ENGINE, _MODEL = "INTERNAL_CPU_OFFLOAD_ENGINE", "INTERNAL_CPU_MODEL"
# What each value is called, as mlxconfig lists them. [NVIDIA MFT, "Using mlxconfig"; BlueField BSP,
# "Modes of Operation"]
_LINK_TYPES = {"1": "IB", "2": "ETH", "3": "VPI"}
_ENGINES = {"0": "ENABLED", "1": "DISABLED"}
_MODELS = {"0": "SEPARATED_HOST", "1": "EMBEDDED_CPU"}


def _named(value: object, names: dict[str, str]) -> str:
    """Return what a value is called, in capitals; empty for a boolean, which says neither."""
    text = str(value).strip().upper()
    if text in ("TRUE", "FALSE"):
        return ""
    if re.fullmatch(r"0X[0-9A-F]+", text):
        text = str(int(text, 16))
    return names.get(text, text)


def _ports(node: Node) -> set[int] | None:
    """Return the ports that rails are, of their cards, from 1 on; None if the site does not say."""
    functions = [re.search(r"\.([0-7])$", rail.pci) for rail in node.rails]
    known = [int(each[1]) + 1 for each in functions if each]
    return set(known) if len(known) == len(functions) else None


def _rails(node: Node) -> Iterator[Violation]:
    settings, ports = node.get(_NAME) or {}, _ports(node)
    kind = {"roce": "ETH", "infiniband": "IB"}.get(node.get("fabric_kind") or "")
    for name, value in settings.items():
        names = {_ENGINE: _ENGINES, _MODEL: _MODELS}.get(name)
        port = re.fullmatch(r"LINK_TYPE_P(\d+)", str(name))
        if port:
            names = _LINK_TYPES
        if names and not _named(value, names):
            message = (
                f"{name}: {str(value).lower()} does not say which of {' and '.join(names)} is meant"
            )
            yield Violation(_NAME, message, f"write {' or '.join(names.values())}", (name,))
        elif port and kind and _named(value, _LINK_TYPES) != kind:
            if ports is None or int(port[1]) in ports:
                message = f"{name} is {value}, but fabric_kind is {node.get('fabric_kind')}"
                remedy = f"write {kind}, or remove the line"
                if ports is None:
                    remedy += "; name the rails by pci if none of them is this port"
                yield Violation(_NAME, message, remedy, (name,))
        elif name == "NUM_OF_PF" and ports and str(value).isdigit() and int(value) < max(ports):
            message = f"NUM_OF_PF is {value}, so rails on function .{max(ports) - 1} would vanish"
            yield Violation(_NAME, message, f"write {max(ports)} or more", (name,))
    engine, model = (
        _named(settings.get(each, "-"), names)
        for each, names in ((_ENGINE, _ENGINES), (_MODEL, _MODELS))
    )
    if engine == "ENABLED" and model != "SEPARATED_HOST":
        message = f"{_ENGINE} ENABLED is DPU mode: a BlueField's Arm processors would own the rails"
        yield Violation(_NAME, message, "write DISABLED", (_ENGINE,))


RULES = (
    Rule(
        "modules.rails",
        "No firmware setting takes a rail's port or its function away, or gives it to an Arm.",
        "NVIDIA MFT, Using mlxconfig; NVIDIA BlueField BSP, Modes of Operation",
        _rails,
    ),
)
