"""PCI addresses for devices of which no capture shows one.

Each RDMA device has a PCI function, which ibstat does not show. Persistent names say where it is
(rdma-core's and systemd's naming schemes). Any other device gets a stand-in, by the number in its
name: an expert can name no other order either, and says so under `not_known`.
"""

from __future__ import annotations

import re

from tests.unit.helpers.museum_hardware import Hardware

_NAME = re.compile(r"(?:ib|roce|en)(?:P(\d+))?p(\d+)s(\d+)(?:f(\d+))?(?:v(\d+))?")
_DOMAIN = "fff0"
# systemd.net-naming-scheme(7); rdma-core kernel-boot/rdma-persistent-naming.rules.
_KINDS = {"ib": "InfiniBand", "en": "Ethernet", "roce": "Ethernet"}


def give(hardware: Hardware) -> None:
    """Have a PCI function for each RDMA device, and for the network device on it."""
    _virtual_functions(hardware)
    _match_by_number(hardware)
    for name in sorted(hardware.rdma, key=_natural):
        attributes = hardware.rdma[name]
        if "parent" in attributes:
            continue
        netdev = attributes.get("ports/1/gid_attrs/ndevs/0", "")
        address = (
            hardware.pci_of.get(name)
            or hardware.pci_of.get(netdev)
            or _named(name)
            or _named(netdev)
            or _stand_in(hardware, attributes.get("sys_image_guid", ""))
        )
        hardware.place(name, address)
        hardware.functions[address].setdefault("vendor", "0x15b3")
        # Linux drivers/infiniband/hw/mlx5/main.c, hca_type_show: MT and the PCI device's number.
        if model := re.fullmatch(r"MT(\d{4,5})", attributes.get("hca_type", "")):
            hardware.functions[address].setdefault("device", f"{int(model[1]):#06x}")
        if (virtual := _NAME.match(netdev or name)) and virtual[5]:
            hardware.functions[address]["physfn/vendor"] = "0x15b3"
        if netdev and "bond" not in netdev:
            hardware.place(netdev, address)
        if kind := _KINDS.get(_prefix(netdev) or _prefix(name)):
            attributes.setdefault("ports/1/link_layer", kind)
    for netdev in hardware.netdevs:
        if address := _named(netdev):
            hardware.place(netdev, address)
            if _NAME.match(netdev)[5]:  # type: ignore[index]
                hardware.functions[address]["physfn/vendor"] = "0x15b3"


def _virtual_functions(hardware: Hardware) -> None:
    """Have the link to the physical function where one of the same bus is listed, as on a host."""
    real = {
        address[:8] for address, each in hardware.functions.items() if each.get("name") == "real"
    }
    for address, each in hardware.functions.items():
        if each.pop("name", "") == "virtual" and address[:8] in real:
            each["physfn/vendor"] = each.get("vendor", "")


def _match_by_number(hardware: Hardware) -> None:
    """Have the RDMA devices on the listed NICs, in both orders, where there are as many."""
    nics = [
        address
        for address, each in sorted(hardware.functions.items())
        if each.get("vendor") == "0x15b3" and each.get("class", "").startswith("0x02")
    ]
    names = sorted(hardware.rdma, key=_natural)
    if len(nics) == len(names) and not any(name in hardware.pci_of for name in names):
        for name, address in zip(names, nics, strict=True):
            hardware.place(name, address)


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part or 0), text) for text, part in re.findall(r"(\D+)(\d*)", name)]


def _prefix(name: str) -> str:
    found = re.match(r"(ib|en|roce)(?=P?\d*p\d+s|s\d)", name)
    return found[1] if found else ""


def _named(name: str) -> str:
    found = _NAME.match(name)
    if not found:
        return ""
    domain, bus, slot, function = (int(each or 0) for each in found.groups()[:4])
    if found[5]:  # a virtual function, the first one right after its physical one
        number = function + 1 + int(found[5])
        slot, function = slot + number // 8, number % 8
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function}"


def _stand_in(hardware: Hardware, card: str) -> str:
    """Return an address that is free: the next function of a card that is known by its GUID."""
    used = [each for each in hardware.functions if each.startswith(_DOMAIN)]
    same = [
        hardware.pci_of[name]
        for name, attributes in hardware.rdma.items()
        if card and attributes.get("sys_image_guid") == card and name in hardware.pci_of
    ]
    if same and len(same) < 8 and same[0].startswith(_DOMAIN):
        return f"{same[0][:-1]}{len(same)}"
    bus = 1 + max((int(each[5:7], 16) for each in used), default=0)
    return f"{_DOMAIN}:{bus:02x}:00.0"
