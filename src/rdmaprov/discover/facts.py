"""The shape of the collector's facts, and their check."""

from __future__ import annotations

import ipaddress
from typing import Any

from rdmaprov.boundary import OddAnswer, parse_answer


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(items: dict[str, Any], most: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": most}


def _text(pattern: str) -> dict[str, Any]:
    return {"type": "string", "pattern": rf"\A(?:{pattern})\Z"}


def _number(least: int, most: int, kind: str = "integer") -> dict[str, Any]:
    return {"type": kind, "minimum": least, "maximum": most}


_PCI = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_PCI_PATH = _list(_text(_PCI), 32)
_NUMA = _number(-1, 1023)  # MAX_NUMNODES of the largest kernels
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
_RAIL = _object(
    device=_text(_NAME),  # IB_DEVICE_NAME_MAX is 64
    netdev=_text(r"[^\s/:{}]{0,15}"),  # IFNAMSIZ is 16, with the final zero
    pci=_text(f"{_PCI}|"),
    path=_PCI_PATH,
    numa_node=_NUMA,
    link_layer=_text("Ethernet|InfiniBand|"),
    state=_text(r"[0-9A-Za-z:_ ]{0,32}"),
    gbps=_number(0, 10_000, "number"),
    mtu_bytes=_number(0, 65_536),
    driver=_text(f"{_NAME}|"),
    firmware=_text(r"[0-9A-Za-z._ -]{0,64}"),
    default_route={"type": "boolean"},
    addresses=_list(_text(r"[0-9a-fA-F.:]{2,45}/[0-9]{1,3}"), 256),
)
_GPU = _object(pci=_text(_PCI), path=_PCI_PATH, numa_node=_NUMA)
SCHEMA = _object(
    rails=_list(_RAIL, 256),
    gpus=_list(_GPU, 256),
    gpu_module=_text("open|proprietary|"),
    memory_bytes=_number(0, 1 << 50),
    numa_nodes=_number(0, 1024),
    kernel=_text(r"[0-9A-Za-z][0-9A-Za-z._+~-]{0,127}"),
)


def parse_facts(text: str) -> dict[str, Any]:
    """Return what the collector printed.

    Raises:
        OddAnswer: it is not what the collector prints.

    """
    facts: dict[str, Any] = parse_answer(text, SCHEMA)
    for address in (address for rail in facts["rails"] for address in rail["addresses"]):
        try:
            ipaddress.ip_interface(address)
        except ValueError as error:
            raise OddAnswer(f"its answer has a wrong address: {address}") from error
    return facts
