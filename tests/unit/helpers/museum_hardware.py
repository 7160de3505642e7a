"""The hardware of a museum's machine, as lspci and the GPUs' tools show it.

A capture mostly has programs' outputs and no sysfs. These programs print what sysfs has, so the
files of sysfs that our readers take can be made from them. Nothing is added: what no capture
shows is in no file.
"""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from xml.etree import ElementTree as ET

from tests.tables import cases

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
_CLASSES = cases(__file__, "_classes")


@dataclass
class Hardware:
    """Attributes as sysfs has them, by address or name; `ways` are bridges above a function."""

    functions: Attributes = field(default_factory=lambda: defaultdict(dict))
    netdevs: Attributes = field(default_factory=lambda: defaultdict(dict))
    rdma: Attributes = field(default_factory=lambda: defaultdict(dict))
    modules: Attributes = field(default_factory=lambda: defaultdict(dict))
    pci_of: dict[str, str] = field(default_factory=dict)
    ways: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def place(self, name: str, address: str) -> None:
        self.pci_of[name] = full(address)
        self.functions.setdefault(full(address), {})


def full(address: str) -> str:
    parts = address.lower().split(":")
    return ":".join([(parts[0][-4:] if len(parts) == 3 else "0000"), *parts[-2:]])


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
    for address in re.findall(r"\b([0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.0)\b", text):
        hardware.functions[full(address)].update({"vendor": "0x10de", "class": "0x030200"})


def rocm_smi(hardware: Hardware, text: str) -> None:
    for address in re.findall(r"\b([0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.0)\b", text):
        hardware.functions[full(address)].update({"vendor": "0x1002", "class": "0x120000"})


_NODE = re.compile(
    r"\[(?:[0-9a-f]{4}:)?([0-9a-f]{2})(?:-[0-9a-f]{2})?\]|([0-9a-f]{2}\.[0-7])(?=[-+ ])"
)


def nccl_topology(hardware: Hardware, text: str) -> None:
    """Take what NCCL_TOPO_DUMP_FILE holds. Source: NCCL src/graph/xml.cc and topo.cc."""
    for cpu in ET.fromstring(text.strip()).iter("cpu"):  # noqa: S314 (a file of this repository)
        for below in cpu.findall("pci"):
            _pci(hardware, below, (), cpu.get("numaid", ""))


def _pci(hardware: Hardware, pci: ET.Element, above: tuple[str, ...], numa_node: str) -> None:
    address = full(pci.get("busid", ""))
    kind = pci.get("class", "")
    # NCCL's GPUs are NVIDIA's; a file that was written by hand may leave the vendor out.
    vendor = pci.get("vendor") or {"0x0302": "0x10de", "0x0207": "0x15b3"}.get(kind[:6], "")
    shown = {
        "class": kind,
        "vendor": vendor,
        "device": pci.get("device"),
        "numa_node": numa_node,
        "current_link_speed": pci.get("link_speed"),
        "current_link_width": pci.get("link_width"),
    }
    found = {key: value for key, value in shown.items() if value}
    hardware.functions[address].update(found)
    hardware.ways[address] = above
    for net in pci.iterfind("nic/net"):
        # It has both functions of a card as ports of the first one.
        where = f"{address[:-1]}{int(net.get('port', '1')) - 1}"
        hardware.functions[where].update(found)
        hardware.ways[where] = above
        name = net.get("name", "").removesuffix("_dma")  # NCCL's, of Data Direct
        hardware.rdma.setdefault(name, {})
        hardware.place(name, where)
    for below in pci.findall("pci"):
        _pci(hardware, below, (*above, address), numa_node)


def lspci_tree(hardware: Hardware, text: str) -> None:
    """Take the functions and bridges that `lspci -tv` draws."""
    above: list[tuple[int, str, str]] = []  # column, the bridge, the bus below it
    for line in text.splitlines():
        bridge = ""
        drawn, two_blanks, name = (*re.split(r"((?<=\.[0-7])  )", line, maxsplit=1), "", "")[:3]
        for found in _NODE.finditer(f"{drawn}{two_blanks} "):
            column = found.start()
            above = [each for each in above if each[0] < column]
            bus = above[-1][2] if above else "00"
            if found[1]:
                above.append((column, bridge, found[1]))
            else:
                bridge = full(f"{bus}:{found[2]}")
        name = name.strip()
        if name and bridge:
            lspci(hardware, f"{bridge} {_kind(name)}: {name}")
            hardware.ways[bridge] = tuple(each[1] for each in above if each[1])


def _kind(name: str) -> str:
    if name.startswith("NVIDIA"):
        return "3D controller"
    return "DMA controller" if "Management Interface" in name else "Ethernet controller"


def lspci_paths(hardware: Hardware, text: str) -> None:
    """Take what `lspci -PP` lists: each function after the bridges above it."""
    for line in text.splitlines():
        if found := re.match(rf"((?:{ADDRESS}/)*)({ADDRESS}) (.*)", line):
            lspci(hardware, f"{found[2]} {found[3]}")
            ways = tuple(full(each) for each in found[1].split("/") if each)
            hardware.ways[full(found[2])] = ways


def rail_mapping(hardware: Hardware, text: str, argv: tuple[str, ...]) -> None:
    """Take the table of gpu-nic-rail-mapping: GPUs, the NICs near them, switches, names by udev.

    Its options have the PCI numbers of the GPUs (-g) and NICs (-n) that it looks for.
    """
    gpu, nic = (argv[argv.index(option) + 1].split(":") for option in ("-g", "-n"))
    form = re.compile(
        rf"({ADDRESS})\s+({ADDRESS})\s+((?:{ADDRESS}/?)*)\s+\S+\s+\d+\s+(\S+)\s+(\S+)"
    )
    for line in text.splitlines():
        if not (found := form.match(line.strip())):
            continue
        above = tuple(full(each) for each in found[3].split("/") if each)
        hardware.functions[full(found[1])].update({"vendor": f"0x{gpu[0]}", "class": "0x120000"})
        hardware.ways[full(found[1])] = above
        if full(found[2]) not in hardware.pci_of.values():
            hardware.functions[full(found[2])]["vendor"] = f"0x{nic[0]}"
            hardware.ways[full(found[2])] = above
            hardware.netdevs.setdefault(found[4], {})
            hardware.rdma.setdefault(found[5], {})
            hardware.place(found[4], found[2])
            hardware.place(found[5], found[2])
