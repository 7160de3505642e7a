"""The hardware of a museum's machine, as lspci and the GPUs' tools show it.

A capture mostly has programs' outputs and no sysfs. These programs print what sysfs has, so the
files of sysfs that our readers take can be made from them. Nothing is added: what no capture
shows is in no file.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

Attributes = defaultdict[str, dict[str, str]]
ADDRESS = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
_VENDORS = {
    "Mellanox": "0x15b3",
    "NVIDIA": "0x10de",
    "Advanced Micro Devices": "0x1002",
    "Intel": "0x8086",
    "Broadcom": "0x14e4",
}
# The names of the PCI ID database (pci.ids, section of device classes).
_CLASSES = {
    "VGA compatible controller": "0300",
    "3D controller": "0302",
    "Display controller": "0380",
    "Processing accelerators": "1200",
    "Ethernet controller": "0200",
    "Infiniband controller": "0207",
    "InfiniBand controller": "0207",
    "Bridge": "0680",
    "PCI bridge": "0604",
    "DMA controller": "0801",
    "Memory controller": "0580",
}


@dataclass
class Hardware:
    """Attributes as sysfs has them.

    Args:
        functions: of PCI functions by address.
        netdevs: of network devices by name.
        rdma: of RDMA devices by name.
        modules: of kernel modules by name.
        pci_of: PCI address by the name of a network or RDMA device.
        ways: bridges above a PCI function, where a capture shows them.
    """

    functions: Attributes = field(default_factory=lambda: defaultdict(dict))
    netdevs: Attributes = field(default_factory=lambda: defaultdict(dict))
    rdma: Attributes = field(default_factory=lambda: defaultdict(dict))
    modules: Attributes = field(default_factory=lambda: defaultdict(dict))
    pci_of: dict[str, str] = field(default_factory=dict)
    ways: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def place(self, name: str, address: str) -> None:
        """Have a device on a PCI function."""
        self.pci_of[name] = full(address)
        self.functions.setdefault(full(address), {})


def full(address: str) -> str:
    """Return a PCI address with its domain, as sysfs has it."""
    parts = address.lower().split(":")
    domain = parts[0][-4:] if len(parts) == 3 else "0000"
    return ":".join([domain, *parts[-2:]])


def lspci(hardware: Hardware, text: str) -> None:
    """Take the functions that lspci lists, and what -vv says of their links."""
    address = ""
    for line in text.splitlines():
        head = re.match(rf"({ADDRESS}) ([^:\[]+?)(?: \[([0-9a-f]{{4}})\])?: (.*)", line)
        if head:
            address = full(head[1])
            _function(hardware.functions[address], head[2], head[3] or "", head[4])
        elif address and line[:1].isspace():
            _lspci_detail(hardware.functions[address], line.strip())


def _function(function: dict[str, str], kind: str, code: str, name: str) -> None:
    function["name"] = "virtual" if re.search(r"Virtual Function|\bVF\]", name) else "real"
    ids = re.search(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]", name)
    code = code or _CLASSES.get(kind, "")
    if code:
        function["class"] = f"0x{code}00"
    if ids:
        function["vendor"], function["device"] = f"0x{ids[1]}", f"0x{ids[2]}"
        return
    vendor = next((value for start, value in _VENDORS.items() if name.startswith(start)), "")
    if vendor:
        function["vendor"] = vendor


def _lspci_detail(function: dict[str, str], line: str) -> None:
    if found := re.match(r"NUMA node: (\d+)", line):
        function["numa_node"] = found[1]
    for mark, kind in (("LnkCap:", "max"), ("LnkSta:", "current")):
        found = re.search(rf"{mark}.*Speed ([\d.]+)GT/s[^,]*, Width x(\d+)", line)
        if found:
            speed = found[1] if "." in found[1] else f"{found[1]}.0"
            function[f"{kind}_link_speed"] = f"{speed} GT/s PCIe"
            function[f"{kind}_link_width"] = found[2]


def nvidia_smi(hardware: Hardware, text: str) -> None:
    """Take the GPUs of which nvidia-smi shows the bus."""
    for address in re.findall(r"\b([0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.0)\b", text):
        hardware.functions[full(address)].update({"vendor": "0x10de", "class": "0x030200"})


def rocm_smi(hardware: Hardware, text: str) -> None:
    """Take the GPUs of which rocm-smi or amd-smi shows the bus."""
    for address in re.findall(r"\b([0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.0)\b", text):
        hardware.functions[full(address)].update({"vendor": "0x1002", "class": "0x120000"})
