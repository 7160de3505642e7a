"""The rails of a node, found by what the site says of them. Runs on the node."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from .machine import Machine, NodeError
from .netdevs import below, kind_of, master_of
from .plan import NotYet, Refused, Unsupported

_NET = "/sys/class/net/"
_INFINIBAND = "/sys/class/infiniband/"
_VERBS = "/sys/class/infiniband_verbs/"
_PCI = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# Linux Documentation/networking/switchdev.rst: pfNvfM and pfNsfM, with cN before for another host.
_REPRESENTOR = re.compile(r"(c\d+)?pf\d+([vs]f\d+|hpf)?")


@dataclass(frozen=True)
class Rail:
    """One RDMA port of the node, as it is now."""

    index: int  # its number, the same on every node for one network plane
    netdev: str  # its network device; empty for a port of InfiniBand without IPoIB
    rdma: str  # its RDMA device, empty if there is none yet
    pci: str  # its PCI address, empty if it has none
    address: str  # the address that it must have, with prefix length; empty for none
    gateway: str  # the router of its subnet; empty for none
    # the port's own network device, if `netdev` is a partition's on it; else empty
    parent: str = ""
    pkey: int = 0

    @property
    def name(self) -> str:
        """Return what a message calls it."""
        return self.netdev or self.rdma

    @property
    def port(self) -> str:
        """Return the port's own network device."""
        return self.parent or self.netdev


def find(machine: Machine, described: list[dict[str, Any]]) -> list[Rail]:
    """Return the rails, in the site's order.

    Names of network and RDMA devices differ between drivers and after udev's renaming; they
    are looked up and never assumed.

    Raises:
        NotYet: a rail's device is not there.
        Refused: it could be several devices, is a part of another, or is another rail's too.
        Unsupported: its data may be on another port than port 1.
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


def require_netdevs(rails: list[Rail]) -> None:
    """Raise NotYet for a rail without a network device, where one is needed."""
    for rail in rails:
        if not rail.netdev:
            raise NotYet(
                f"rail {rail.index}: {rail.rdma} has no network device; is ib_ipoib loaded? RDMA "
                "needs none: write fabric_ipoib: false where it is not used"
            )


def named_by(entry: dict[str, Any]) -> dict[str, Any]:
    """Return what a rail is found by: its RDMA device only without another name."""
    named = {name: entry[name] for name in ("netdev", "pci") if entry.get(name)}
    return named or {"rdma": entry.get("rdma") or ""}


def _rail(machine: Machine, index: int, entry: dict[str, Any]) -> Rail:
    netdev = entry.get("netdev") or ""
    rdma, pci = "", ""
    if not netdev:
        rdma, pci = _named_by(machine, index, entry)
        netdev = _netdev_of(machine, pci, index) if pci else ""
    if netdev:
        _require_own(machine, netdev, index)
        rdma, pci = rdma or rdma_of(machine, netdev), pci_of(machine, netdev)
    elif not rdma:
        raise NotYet(f"rail {index}: PCI device {pci} has no network device; is its driver loaded?")
    if rdma:
        _require_one_port(machine, index, rdma)
    rail = Rail(index, netdev, rdma, pci, entry.get("address") or "", entry.get("gateway") or "")
    if not (netdev and entry.get("ipoib_pkey")):
        return rail
    key = partition_key(entry["ipoib_pkey"])
    if key is None:
        raise Refused(f"rail {index}: ipoib_pkey {entry['ipoib_pkey']!r} is no partition key")
    return replace(rail, netdev=interface_of(netdev, key), parent=netdev, pkey=key)


def _named_by(machine: Machine, index: int, entry: dict[str, Any]) -> tuple[str, str]:
    """Return the RDMA device and the PCI address of a rail that is named by one of them.

    The RDMA device is that of a port of InfiniBand, which needs no network device; else empty.
    """
    devices, named = machine.names(_INFINIBAND), entry.get("rdma") or ""
    if entry.get("pci"):
        pci = str(entry["pci"]).lower()
        if not machine.exists("/sys/bus/pci/devices/" + pci):
            raise NotYet(f"rail {index}: there is no PCI device {pci}")
        at = [name for name in devices if pci_of_rdma(machine, name) == pci]
        named = next((name for name in at if not _data_device_of(machine, name)), "")
        layer = _name(machine, f"{_INFINIBAND}{named}/ports/1/link_layer") if named else ""
        return (named if layer == "InfiniBand" else ""), pci
    if named not in devices:
        has = ", ".join(devices) or "none"
        raise NotYet(f"rail {index}: there is no RDMA device {named} ({_INFINIBAND} has {has})")
    return named, pci_of_rdma(machine, named)


def _require_one_port(machine: Machine, index: int, rdma: str) -> None:
    """Require that an RDMA device can be set and read by its port 1."""
    of, ports = _data_device_of(machine, rdma), machine.names(f"{_INFINIBAND}{rdma}/ports")
    if of:
        raise Unsupported(
            f"rail {index}: {rdma} is the SMI device of {of}, which carries management alone"
        )
    if len(ports) > 1 and any(_has_data(machine, f"{_INFINIBAND}{rdma}/ports/{p}") for p in ports):
        raise Unsupported(
            f"rail {index}: {rdma} has {len(ports)} ports ({_INFINIBAND}{rdma}/ports), with data "
            "on others than port 1: a multi-port or multi-plane device, which is not supported"
        )


def _has_data(machine: Machine, port: str) -> bool:
    """Return whether data may be on others than port 1, by one port of several."""
    # In switchdev mode, further ports are representors, or nobody's, and down.
    netdev, is_first = _name(machine, port + "/gid_attrs/ndevs/0"), port.endswith("/ports/1")
    if _name(machine, port + "/link_layer") == "InfiniBand":
        return not is_first
    if is_first:
        return not netdev
    if netdev:
        return not _REPRESENTOR.fullmatch(_name(machine, f"{_NET}{netdev}/phys_port_name"))
    return _name(machine, port + "/state").startswith("4:")


def _data_device_of(machine: Machine, rdma: str) -> str:
    """Return the device that an SMI device belongs to, empty for all other devices."""
    # It has a port for each plane, and no uverbs: Linux core/uverbs_main.c, ib_uverbs_add_one.
    pci, devices = pci_of_rdma(machine, rdma), machine.names(_INFINIBAND)
    others = [each for each in devices if each != rdma and pci_of_rdma(machine, each) == pci]
    if not pci or not others:
        return ""
    verbs = [_name(machine, f"{_VERBS}{each}/ibdev") for each in machine.names(_VERBS)]
    count = {each: len(machine.names(f"{_INFINIBAND}{each}/ports")) for each in devices}
    for other in others if rdma not in verbs else ():
        is_named = "smi" in rdma and "smi" not in other
        if other in verbs or count[other] < count[rdma] or is_named:
            return other
    return ""


def _require_own(machine: Machine, netdev: str, index: int) -> None:
    """Require that a network device is there, and no part of another."""
    if not machine.exists(_NET + netdev):
        raise NotYet(f"rail {index}: there is no network device {netdev}")
    master = master_of(machine, netdev)
    if master:
        raise Refused(
            f"rail {index}: {netdev} is a port of {master} ({_NET}{netdev}/master), which has its "
            f"addresses and RDMA device. Write netdev: {master}, or remove {netdev} from it"
        )


def _require_apart(one: Rail, other: Rail) -> None:
    if one.netdev and one.netdev == other.netdev:
        raise Refused(
            f"rail {one.index} and rail {other.index} are both the network device {one.netdev}. "
            "Write each device once in fabric_rails"
        )
    if one.rdma and one.rdma == other.rdma:
        raise Refused(
            f"rail {one.index} ({one.name}) and rail {other.index} ({other.name}) are one "
            f"RDMA device, {one.rdma}: it would count twice. Write one of them in fabric_rails"
        )


def _netdev_of(machine: Machine, pci: str, index: int) -> str:
    """Return the network device of a PCI function, empty where it has none."""
    found = [
        name
        for name in machine.names(_NET)
        if pci_of(machine, name) == pci and _is_port(machine, name)
    ]
    if len(found) > 1:
        raise Refused(
            f"rail {index}: PCI device {pci} has several network devices ({_NET}*/device). "
            "Write " + " or ".join("netdev: " + name for name in found) + " in place of pci"
        )
    return found[0] if found else ""


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


def pci_of(machine: Machine, netdev: str) -> str:
    """Return the PCI address of a network device, empty if it has none."""
    return _pci_at(machine, f"{_NET}{netdev}/device")


def pci_of_rdma(machine: Machine, rdma: str) -> str:
    """Return the PCI address of an RDMA device, empty if it has none."""
    return _pci_at(machine, f"{_INFINIBAND}{rdma}/device")


def _pci_at(machine: Machine, link: str) -> str:
    found = [part for part in machine.real(link).split("/") if _PCI.fullmatch(part)]
    return found[-1] if found else ""


def rdma_of(machine: Machine, netdev: str) -> str:
    """Return the RDMA device on a network device, empty if there is none.

    One that says so counts before one that is only on the same PCI function: a bond's RDMA device
    is on its first port's function. A VLAN's is that of the device below it, and so is that of a
    bond whose RDMA device has no GID yet, unless its ports have several.
    """
    devices = [n for n in machine.names(_INFINIBAND) if not _data_device_of(machine, n)]
    for name in devices:
        base = _INFINIBAND + name
        # Soft-RoCE has no device of its own: its network device is its parent.
        first_gid_of = _name(machine, base + "/ports/1/gid_attrs/ndevs/0")
        if netdev in (_name(machine, base + "/parent"), first_gid_of):
            return name
    for name in devices:
        if netdev in machine.names(_INFINIBAND + name + "/device/net"):
            return name
    if kind_of(machine, netdev) not in ("bond", "vlan"):
        return ""
    found = {rdma_of(machine, each) for each in below(machine, netdev)} - {""}
    return found.pop() if len(found) == 1 else ""


def _name(machine: Machine, path: str) -> str:
    """Return a name in a kernel file; empty where there is none: EINVAL for a GID that is unset.

    All of InfiniBand's are (Linux drivers/infiniband/core/sysfs.c, _show_port_gid_attr).
    """
    try:
        return machine.value(path) or ""
    except NodeError:
        return ""


# [InfiniBand Architecture 1.7, volume 1, 10.9.1] The highest of 16 bits is full membership, the
# others are the partition's number, which is never 0.
NUMBER, FULL = 0x7FFF, 0x8000


def partition_key(text: str) -> int | None:
    """Return a partition key, None if the text is none."""
    if not re.fullmatch(r"0x[0-9a-fA-F]{1,4}", text) or not int(text, 16) & NUMBER:
        return None
    return int(text, 16)


def interface_of(netdev: str, key: int) -> str:
    """Return the name of a partition's IPoIB interface on a port's network device.

    Linux drivers/infiniband/ulp/ipoib/ipoib_vlan.c, ipoib_vlan_add: "%s.%04x". NetworkManager knows
    no other [libnm, NMSettingInfiniband:p-key].
    """
    return f"{netdev}.{key:04x}"
