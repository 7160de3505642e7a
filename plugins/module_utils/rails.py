"""The rails of a node, found by what the site says of them. Runs on the node."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .machine import Machine, NodeError
from .plan import NotYet, Refused

_NET = "/sys/class/net/"
_INFINIBAND = "/sys/class/infiniband/"
_PCI = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# Linux Documentation/networking/switchdev.rst: pfNvfM and pfNsfM, with cN before for another host.
_REPRESENTOR = re.compile(r"(c\d+)?pf\d+([vs]f\d+|hpf)?")


@dataclass(frozen=True)
class Rail:
    """One RDMA port of the node, as it is now.

    Args:
        index: its number, the same on every node for one network plane.
        netdev: its network device.
        rdma: its RDMA device, empty if there is none yet.
        pci: its PCI address, empty if it has none.
        address: the address that it must have, with prefix length; empty for none.
        gateway: the router of its subnet; empty for none.

    """

    index: int
    netdev: str
    rdma: str
    pci: str
    address: str
    gateway: str


def find(machine: Machine, described: list[dict[str, Any]]) -> list[Rail]:
    """Return the rails, in the site's order.

    Names of network and RDMA devices differ between drivers and after udev's renaming; they
    are looked up and never assumed.

    Raises:
        NotYet: a rail's device is not there.
        Refused: it could be several devices, is a part of another, or is another rail's too.

    """
    rails: list[Rail] = []
    for index, entry in enumerate(described):
        rail = _rail(machine, index, entry)
        for other in rails:
            _require_apart(other, rail)
        rails.append(rail)
    return rails


def present(
    machine: Machine, described: list[dict[str, Any]]
) -> tuple[list[Rail], list[NodeError]]:
    """Return the rails that are there, and why each of the others is not: for a boot.

    One dead NIC must not leave the others as they start.
    """
    rails: list[Rail] = []
    missing: list[NodeError] = []
    for index, entry in enumerate(described):
        try:
            rails.append(_rail(machine, index, entry))
        except NodeError as error:
            missing.append(error)
    return rails, missing


def _rail(machine: Machine, index: int, entry: dict[str, Any]) -> Rail:
    netdev = entry.get("netdev") or _netdev_of(machine, str(entry.get("pci")).lower(), index)
    if not machine.exists(_NET + netdev):
        raise NotYet(f"rail {index}: there is no network device {netdev}")
    master = master_of(machine, netdev)
    if master:
        raise Refused(
            f"rail {index}: {netdev} is a port of {master} ({_NET}{netdev}/master), which has its "
            f"addresses and RDMA device. Write netdev: {master}, or remove {netdev} from it"
        )
    return Rail(
        index,
        netdev,
        rdma_of(machine, netdev),
        pci_of(machine, netdev),
        entry.get("address") or "",
        entry.get("gateway") or "",
    )


def _require_apart(one: Rail, other: Rail) -> None:
    if one.netdev == other.netdev:
        raise Refused(
            f"rail {one.index} and rail {other.index} are both the network device {one.netdev}. "
            "Write each device once in fabric_rails"
        )
    if one.rdma and one.rdma == other.rdma:
        raise Refused(
            f"rail {one.index} ({one.netdev}) and rail {other.index} ({other.netdev}) are one "
            f"RDMA device, {one.rdma}: it would count twice. Write one of them in fabric_rails"
        )


def _netdev_of(machine: Machine, pci: str, index: int) -> str:
    device = "/sys/bus/pci/devices/" + pci
    if not machine.exists(device):
        raise NotYet(f"rail {index}: there is no PCI device {pci}")
    found = [
        name
        for name in machine.names(_NET)
        if pci_of(machine, name) == pci and _is_port(machine, name)
    ]
    if not found:
        raise NotYet(f"rail {index}: PCI device {pci} has no network device; is its driver loaded?")
    if len(found) > 1:
        raise Refused(
            f"rail {index}: PCI device {pci} has several network devices ({_NET}*/device). "
            "Write " + " or ".join("netdev: " + name for name in found) + " in place of pci"
        )
    return found[0]


def _is_port(machine: Machine, netdev: str) -> bool:
    """Return whether it is a port of its PCI function: no representor, no partition of IPoIB."""
    base = _NET + netdev
    try:
        port = machine.value(base + "/phys_port_name") or ""
    except NodeError:
        port = ""  # EOPNOTSUPP: the driver names no ports, so it has no representors
    if _REPRESENTOR.fullmatch(port):
        return False
    return machine.value(base + "/iflink") in (None, machine.value(base + "/ifindex"))


def master_of(machine: Machine, netdev: str) -> str:
    """Return the bond or bridge that a network device is a port of; empty for none.

    A VRF is a master too, but its members keep their addresses.
    """
    link = _NET + netdev + "/master"
    if not machine.exists(link):
        return ""
    if machine.exists(link + "/bonding") or machine.exists(link + "/bridge"):
        return machine.real(link).rpartition("/")[2]
    return ""


def pci_of(machine: Machine, netdev: str) -> str:
    """Return the PCI address of a network device, empty if it has none."""
    parts = machine.real(f"{_NET}{netdev}/device").split("/")
    found = [part for part in parts if _PCI.fullmatch(part)]
    return found[-1] if found else ""


def rdma_of(machine: Machine, netdev: str) -> str:
    """Return the RDMA device on a network device, empty if there is none.

    One that says so counts before one that is only on the same PCI function: a bond's RDMA device
    is on its first port's function. A VLAN's is that of the device below it, and so is that of a
    bond whose RDMA device has no GID yet, unless its ports have several.
    """
    devices = machine.names(_INFINIBAND)
    for name in devices:
        base = _INFINIBAND + name
        # Soft-RoCE has no device of its own: its network device is its parent.
        if netdev in (_name(machine, base + "/parent"), _first_gid_of(machine, base)):
            return name
    for name in devices:
        if netdev in machine.names(_INFINIBAND + name + "/device/net"):
            return name
    if kind_of(machine, netdev) not in ("bond", "vlan"):
        return ""
    found = {rdma_of(machine, each) for each in below(machine, netdev)} - {""}
    return found.pop() if len(found) == 1 else ""


def kind_of(machine: Machine, netdev: str) -> str:
    """Return what the kernel calls a network device that is no port, such as bond or vlan."""
    uevent = machine.read(f"{_NET}{netdev}/uevent") or ""
    found = re.search(r"(?m)^DEVTYPE=(\w+)$", uevent)
    return found.group(1) if found else ""


def below(machine: Machine, netdev: str) -> list[str]:
    """Return the network devices that a bond or a VLAN stands on, none for a port."""
    names = machine.names(_NET + netdev)
    return [name[len("lower_") :] for name in names if name.startswith("lower_")]


def vlan_parents(machine: Machine, netdev: str) -> list[str]:
    """Return what a VLAN stands on, through other VLANs too, the lowest first; none for others."""
    if kind_of(machine, netdev) != "vlan":
        return []
    parents = below(machine, netdev)
    return [each for parent in parents for each in (*vlan_parents(machine, parent), parent)]


def with_below(machine: Machine, netdev: str) -> list[str]:
    """Return a network device and all that it stands on, each once."""
    found = [netdev]
    for name in below(machine, netdev):
        found += with_below(machine, name)
    return list(dict.fromkeys(found))


def _first_gid_of(machine: Machine, base: str) -> str:
    return _name(machine, base + "/ports/1/gid_attrs/ndevs/0")


def _name(machine: Machine, path: str) -> str:
    """Return a name in a kernel file; empty where there is none: EINVAL for a GID that is unset.

    All of InfiniBand's are (Linux drivers/infiniband/core/sysfs.c, _show_port_gid_attr).
    """
    try:
        return machine.value(path) or ""
    except NodeError:
        return ""
