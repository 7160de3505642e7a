"""Which GPUs and NICs share PCIe switches, by `nvidia-smi topo -m`.

The matrix has relations and no bridges: devices that are PIX or PXB of each other get a stand-in
bridge in common, those that are PIX a second one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tests.unit.helpers.museum_hardware import Hardware

_NAME = re.compile(r"GPU\d+|NIC\d+|mlx5_\w+")
_GPU_DOMAIN, _BRIDGE_DOMAIN = "fff1", "fff2"


def take(hardware: Hardware, text: str) -> None:
    """Have the matrix's GPUs and bridges. The RDMA devices have PCI addresses already."""
    columns, rows = _matrix(text)
    names = _names(text, hardware, columns)
    gpus = [name for name in columns if name.startswith("GPU")]
    of = {name: hardware.pci_of[names[name]] for name in columns if name in names}
    of |= dict(zip(gpus, _gpu_addresses(hardware, len(gpus)), strict=True))
    for column, name in enumerate(columns):
        if name in of:
            relations = rows.get(name) or [row[column] for row in rows.values()]
            hardware.ways.setdefault(of[name], tuple(_bridges(relations)))


def _matrix(text: str) -> tuple[list[str], dict[str, list[str]]]:
    """Return the columns' names, and the relations of each row to them; a part lacks rows."""
    columns, rows = list[str](), {}
    for line in text.splitlines():
        words = re.sub(r"\x1b\[[0-9;]*m", "", line).split()
        if not columns:
            columns = [word for word in words if _NAME.fullmatch(word)]
        elif len(words) > len(columns) and _NAME.fullmatch(words[0]):
            rows[words[0]] = words[1 : len(columns) + 1]
    return columns, rows


def _names(text: str, hardware: Hardware, rows: Iterable[str]) -> dict[str, str]:
    """Return RDMA devices by the name in the matrix: by the legend, else by number."""
    legend = dict(re.findall(r"(?m)^\s*(NIC\d+): (\S+)", text))
    by_number = sorted(hardware.rdma, key=lambda each: (hardware.pci_of[each], each))
    nics = [name for name in rows if name.startswith("NIC")]
    guess = dict(zip(nics, by_number, strict=False)) if len(nics) == len(by_number) else {}
    own = {name: name for name in rows}
    return {
        name: rdma
        for name, rdma in {**own, **guess, **legend}.items()
        if rdma in hardware.rdma and name in rows
    }


def _gpu_addresses(hardware: Hardware, count: int) -> list[str]:
    """Return the GPUs' addresses; stand-ins if the captures show others than all of them."""
    gpus = [
        address
        for address, attributes in hardware.functions.items()
        if attributes.get("vendor") == "0x10de" and attributes.get("class", "").startswith("0x03")
    ]
    if len(gpus) == count:
        return sorted(gpus)
    for address in gpus:
        del hardware.functions[address]
    found = [f"{_GPU_DOMAIN}:{index + 1:02x}:00.0" for index in range(count)]
    for address in found:
        hardware.functions[address].update({"vendor": "0x10de", "class": "0x030200"})
    return found


def _bridges(relations: list[str]) -> list[str]:
    """Return the bridges above a device: one for each set of devices that share one."""
    found = []
    for depth, near in enumerate((("X", "PIX", "PXB"), ("X", "PIX"))):
        shared = [index for index, relation in enumerate(relations) if relation in near]
        if len(shared) > 1:
            found.append(f"{_BRIDGE_DOMAIN}:{shared[0] + 1:02x}:{depth:02x}.0")
    return found
