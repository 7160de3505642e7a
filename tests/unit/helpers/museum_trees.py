"""PCI trees as other programs write them: NCCL's topology file, `lspci -t` and `lspci -PP`."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from tests.unit.helpers.museum_hardware import ADDRESS, Hardware, full, lspci

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
