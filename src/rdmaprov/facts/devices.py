"""Network, RDMA and PCI devices of a node, and which of them a rail is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.memo import remember
from rdmaprov.facts.text import END, Files, files_command, parse_files, whole
from rdmaprov.inventory import Rail

NET = "/sys/class/net"
INFINIBAND = "/sys/class/infiniband"
PCI = "/sys/bus/pci/devices"
ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
LISTING = (
    f"LC_ALL=C find {NET} {INFINIBAND} {PCI} -mindepth 1 -maxdepth 1 -type l "
    f"-printf '%p %l\\n'; echo {END}"
)
ATTRIBUTES = (
    f"{NET}/*/mtu",
    f"{NET}/*/mode",
    f"{NET}/*/flags",
    f"{NET}/*/address",
    f"{NET}/*/type",
    f"{NET}/*/ifindex",
    f"{NET}/*/iflink",
    f"{NET}/*/phys_port_name",
    f"{NET}/*/uevent",
    f"{NET}/*/speed",
    f"{NET}/*/carrier",
    f"{NET}/*/carrier_changes",
    f"{NET}/*/device/vendor",
    f"{NET}/*/device/device",
    f"{NET}/*/bonding/slaves",
    f"{NET}/*/bonding/mode",
    f"{INFINIBAND}/*/parent",
    f"{INFINIBAND}/*/fw_ver",
    f"{INFINIBAND}/*/board_id",
    f"{INFINIBAND}/*/ports/1/state",
    f"{INFINIBAND}/*/ports/1/phys_state",
    f"{INFINIBAND}/*/ports/1/rate",
    f"{INFINIBAND}/*/ports/1/link_layer",
    f"{INFINIBAND}/*/ports/1/gid_attrs/ndevs/0",
)
_WORDS = " ".join(ATTRIBUTES)
# Linux Documentation/networking/switchdev.rst: a representor is a port of another function, such as
# pf0vf3, or of another host's, such as c1pf0.
_REPRESENTOR = re.compile(r"(c\d+)?pf\d+([vs]f\d+|hpf)?")


class NoDevice(CouldNotTell):
    """A device of a rail is not there, so everything about it is unknown."""


@dataclass(frozen=True)
class Port:
    """The devices of a rail on a node, as they are now.

    Args:
        index: the rail's number.
        netdev: its network device; empty for a port of InfiniBand without IPoIB.
        rdma: its RDMA device, empty if there is none.
        pci: its PCI address, empty if it has none.

    """

    index: int
    netdev: str
    rdma: str
    pci: str

    @property
    def label(self) -> str:
        """Return its devices, as messages have them."""
        return f"{self.netdev} {self.rdma}".strip()

    def require_netdev(self) -> str:
        """Return the network device.

        Raises:
            NoDevice: there is none.

        """
        if not self.netdev:
            raise NoDevice(f"rail {self.index}: no network device of {self.rdma}", "ip link")
        return self.netdev

    def require_rdma(self) -> str:
        """Return the RDMA device.

        Raises:
            NoDevice: there is none.

        """
        if not self.rdma:
            raise NoDevice(f"rail {self.index}: no RDMA device on {self.netdev}", "rdma link")
        return self.rdma


@dataclass(frozen=True)
class Devices:
    """All devices of a node.

    Args:
        paths: by a device's path in a class, such as /sys/class/net/ens1, its place in the
            machine, such as /sys/devices/pci0000:00/0000:00:04.0/net/ens1.
        files: their attributes.

    """

    paths: Mapping[str, str]
    files: Files

    def names(self, of_class: str) -> list[str]:
        """Return the devices of a class by name, such as those of /sys/class/net."""
        start = of_class + "/"
        return sorted(path[len(start) :] for path in self.paths if path.startswith(start))

    def netdev(self, name: str, attribute: str) -> str:
        """Return an attribute of a network device; CouldNotTell if it cannot be read."""
        return self.files.must(f"{NET}/{name}/{attribute}")

    def port(self, name: str, attribute: str) -> str:
        """Return an attribute of an RDMA device's port; CouldNotTell if it cannot be read."""
        return self.files.must(f"{INFINIBAND}/{name}/ports/1/{attribute}")

    def way_to(self, port: Port) -> list[str]:
        """Return the PCI addresses on the way to a port, the root port first, its own last."""
        path = f"{NET}/{port.netdev}" if port.netdev else f"{INFINIBAND}/{port.rdma}"
        return self.pci_of(path)

    def pci_of(self, path: str) -> list[str]:
        """Return the PCI addresses on the way to a device, the root port first, its own last."""
        return [part for part in self.paths.get(path, "").split("/") if ADDRESS.fullmatch(part)]

    def below(self, netdev: str) -> tuple[str, ...]:
        """Return the network devices that a bond or a VLAN is on; none for a port."""
        slaves = self.files.value(f"{NET}/{netdev}/bonding/slaves")
        if slaves is not None:
            return tuple(slaves.split())
        if "DEVTYPE=vlan" not in (self.files.value(f"{NET}/{netdev}/uevent") or "").split():
            return ()
        number = self.files.value(f"{NET}/{netdev}/iflink")
        indexes = {self.files.value(f"{NET}/{name}/ifindex"): name for name in self.names(NET)}
        return (indexes[number],) if number in indexes else ()

    def is_software(self, rdma: str) -> bool:
        """Return whether an RDMA device is Soft-RoCE or the like: no card, no rate, no PCI."""
        return "/virtual/" in self.paths.get(f"{INFINIBAND}/{rdma}", "")


def read(host: Host) -> Devices:
    """Return the node's devices, by two commands.

    Raises:
        CouldNotTell: they cannot be listed.

    """
    listing, attributes = host.run(LISTING), host.run(files_command(*ATTRIBUTES))
    return parse(listing.stdout, attributes.stdout, attributes.stderr)


@remember
def parse(listing: str, attributes: str, errors: str) -> Devices:
    """Return the devices of `LISTING` and of the files that are `ATTRIBUTES`.

    Raises:
        CouldNotTell: the output is cut, or another program's.

    """
    return Devices(parse_listing(listing), parse_files(attributes, errors, _WORDS))


def parse_listing(stdout: str) -> Mapping[str, str]:
    """Return each device's place in the machine, from `find -printf '%p %l'`.

    Raises:
        CouldNotTell: the output is cut, or another program's.

    """
    paths = {}
    for line in whole(stdout, "listing devices").splitlines():
        path, _, target = line.partition(" ")
        found = re.fullmatch(r"(?:\.\./)+(devices/\S+)", target)
        if not path.startswith("/sys/") or found is None:
            raise CouldNotTell(f"listing devices: {line[:80]!r} is no link of sysfs")
        paths[path] = "/sys/" + found[1]
    return paths


def port(host: Host, rail: Rail) -> Port:
    """Return a rail's devices on a node.

    Raises:
        NoDevice: its network device is not there.

    """
    return port_of(read(host), rail)


def port_of(devices: Devices, rail: Rail) -> Port:
    """Return a rail's devices.

    Raises:
        NoDevice: its network device is not there, nor an RDMA device that needs none.

    """
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
    return Port(rail.index, netdev, _rdma_on(devices, netdev), way[-1] if way else "")


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
        if way[-1:] == [pci] and layer == "InfiniBand":
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


def _rdma_on(devices: Devices, netdev: str) -> str:
    """Return the RDMA device on a network device, empty if there is none.

    One that names it counts before one on the same function: a bond's RDMA device is on its
    first port's function. A VLAN's is that of the device below it, and so is that of a bond whose
    RDMA device has no GID yet, unless its ports have several.
    """
    names = devices.names(INFINIBAND)
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
