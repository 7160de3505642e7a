"""Which devices of a node a rail is, as the suite reads it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rdmaprov.facts.devices import INFINIBAND, NET, PCI, Devices, read
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.text import Files
from rdmaprov.inventory import Rail
from rdmaprov.inventory.partitions import interface_of, partition_key
from rdmaprov.node.devices import PORTS, SMI

# Linux Documentation/networking/switchdev.rst: a representor is a port of another function, such as
# pf0vf3, or of another host's, such as c1pf0.
_REPRESENTOR = re.compile(r"(c\d+)?pf\d+([vs]f\d+|hpf)?")


class NoDevice(CouldNotTell):
    """A device of a rail is not there, so everything about it is unknown."""


class UnfitDevice(CouldNotTell):
    """A rail's device is of a kind that is not supported, so everything about it is unknown."""


@dataclass(frozen=True)
class Port:
    """The devices of a rail on a node, as they are now."""

    index: int
    netdev: str  # its network device; empty for a port of InfiniBand without IPoIB
    rdma: str  # its RDMA device, empty if there is none
    pci: str  # its PCI address, empty if it has none
    # the port's own network device, where `netdev` is the IPoIB interface of a partition on it;
    # empty for others
    parent: str = ""

    @property
    def label(self) -> str:
        """Return its devices, as messages have them."""
        return f"{self.netdev} {self.rdma}".strip()

    def require_netdev(self) -> str:
        """Return the network device; raise NoDevice if there is none."""
        if not self.netdev:
            raise NoDevice(f"rail {self.index}: no network device of {self.rdma}", "ip link")
        return self.netdev

    def require_rdma(self) -> str:
        """Return the RDMA device; raise NoDevice if there is none."""
        if not self.rdma:
            raise NoDevice(f"rail {self.index}: no RDMA device on {self.netdev}", "rdma link")
        return self.rdma


def port(host: Host, rail: Rail) -> Port:
    """Return a rail's devices on a node; raise NoDevice if its network device is not there."""
    return port_of(read(host), rail)


def port_of(devices: Devices, rail: Rail) -> Port:
    """Return a rail's devices.

    Raises:
        NoDevice: its network device is not there, nor an RDMA device that needs none.
    """
    found = _found(devices, rail)
    if found.rdma and (why := _unfit(devices, found.rdma)):
        raise UnfitDevice(f"rail {rail.index}: {why}", "rdma link")
    return found


def _found(devices: Devices, rail: Rail) -> Port:
    netdev, rdma = rail.netdev, ""
    if not netdev:
        pci, rdma = _named_by(devices, rail)
        netdev = _netdev_at(devices, rail, pci)
        if not netdev and rdma:
            return Port(rail.index, "", rdma, pci)
        if not netdev:
            where = f"{PCI}/{pci}"
            there = "no network device" if where in devices.paths else "no such PCI device"
            raise NoDevice(f"rail {rail.index}: {pci} has {there} ({where})", f"lspci -nnks {pci}")
    path = f"{NET}/{netdev}"
    if path not in devices.paths:
        has = ", ".join(devices.names(NET)) or "none"
        raise NoDevice(f"rail {rail.index}: no network device {netdev} ({NET} has {has})")
    way = devices.pci_of(path)
    found = Port(rail.index, netdev, rdma or _rdma_on(devices, netdev), way[-1] if way else "")
    return _in_partition(devices, rail, found) if rail.ipoib_pkey else found


def _in_partition(devices: Devices, rail: Rail, found: Port) -> Port:
    """Return a rail's devices where its network device is the interface of a partition."""
    key = partition_key(rail.ipoib_pkey)
    netdev = interface_of(found.netdev, key or 0)
    if f"{NET}/{netdev}" not in devices.paths:
        has = ", ".join(devices.names(NET))
        raise NoDevice(f"rail {rail.index}: no network device {netdev} ({NET} has {has})")
    return replace(found, netdev=netdev, parent=found.netdev)


def way_to(devices: Devices, port: Port) -> list[str]:
    """Return the PCI addresses on the way to a port, the root port first, its own last."""
    path = f"{NET}/{port.parent or port.netdev}" if port.netdev else f"{INFINIBAND}/{port.rdma}"
    return devices.pci_of(path)


def _named_by(devices: Devices, rail: Rail) -> tuple[str, str]:
    """Return PCI address and RDMA device of a rail that is named by one of the two.

    The RDMA device is that of a port of InfiniBand, which needs no network device; else empty.
    """
    there = {name: devices.pci_of(f"{INFINIBAND}/{name}") for name in devices.names(INFINIBAND)}
    if not rail.pci:
        if rail.rdma not in there:
            has = ", ".join(there) or "none"
            why = f"rail {rail.index}: no RDMA device {rail.rdma} ({INFINIBAND} has {has})"
            raise NoDevice(why, "rdma link")
        return "".join(there[rail.rdma][-1:]), rail.rdma
    pci = rail.pci.lower()
    for name, way in there.items():
        layer = devices.files.value(f"{INFINIBAND}/{name}/ports/1/link_layer")
        if way[-1:] == [pci] and layer == "InfiniBand" and name not in devices.smi:
            return pci, name
    return pci, ""


def _netdev_at(devices: Devices, rail: Rail, pci: str) -> str:
    """Return the network device of a PCI function, empty where it has none."""
    found = [
        name
        for name in devices.names(NET)
        if devices.pci_of(f"{NET}/{name}")[-1:] == [pci] and _is_port(devices.files, name)
    ]
    if len(found) > 1:
        raise CouldNotTell(f"rail {rail.index}: {pci} has several network devices: {found}")
    return "".join(found)


def _is_port(files: Files, name: str) -> bool:
    """Return whether it is a port of its function: no representor, no partition of IPoIB."""
    try:
        representor = files.value(f"{NET}/{name}/phys_port_name") or ""
    except CouldNotTell:
        representor = ""  # EOPNOTSUPP: the driver names no ports
    if _REPRESENTOR.fullmatch(representor):
        return False
    return files.value(f"{NET}/{name}/iflink") == files.value(f"{NET}/{name}/ifindex")


def _unfit(devices: Devices, rdma: str) -> str:
    """Return why an RDMA device cannot be judged by its port 1, empty if it can."""
    if of := devices.smi.get(rdma):
        return SMI.format(rdma, of)
    ports = devices.ports(rdma)
    if len(ports) > 1 and any(_has_data(devices.files.texts, rdma, each) for each in ports):
        return PORTS.format(rdma, len(ports), rdma)
    return ""


def _has_data(texts: Mapping[str, str], rdma: str, port: str) -> bool:
    """Return whether data may be on others than port 1, by one port of several."""
    # In switchdev mode, further ports are representors, or nobody's, and down.
    base = f"{INFINIBAND}/{rdma}/ports/{port}"
    netdev = texts.get(f"{base}/gid_attrs/ndevs/0", "").strip()
    if texts.get(f"{base}/link_layer", "").strip() == "InfiniBand":
        return port != "1"
    if port == "1":
        return not netdev
    if netdev:
        name = texts.get(f"{NET}/{netdev}/phys_port_name", "").strip()
        return not _REPRESENTOR.fullmatch(name)
    return texts.get(f"{base}/state", "").startswith("4:")


def _rdma_on(devices: Devices, netdev: str) -> str:
    """Return the RDMA device on a network device, empty if there is none.

    One that names it counts before one on the same function: a bond's RDMA device is on its
    first port's function. A VLAN's is that of the device below it, and so is that of a bond whose
    RDMA device has no GID yet, unless its ports have several.
    """
    names = [n for n in devices.names(INFINIBAND) if n not in devices.smi]
    for name in names:
        for attribute in ("parent", "ports/1/gid_attrs/ndevs/0"):
            if devices.files.texts.get(f"{INFINIBAND}/{name}/{attribute}", "").strip() == netdev:
                return name
    function = devices.paths.get(f"{NET}/{netdev}", "").rpartition("/net/")[0]
    for name in names:
        place = devices.paths[f"{INFINIBAND}/{name}"]
        if function and place.rpartition("/infiniband/")[0] == function and "/pci" in function:
            return name
    found = {_rdma_on(devices, each) for each in devices.below(netdev)} - {""}
    return found.pop() if len(found) == 1 else ""
