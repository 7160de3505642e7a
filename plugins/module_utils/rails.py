"""The rails of a node, found by what the site says of them. Runs on the node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .machine import Machine
from .plan import NotYet

# As in the role fabric's fabric_rails.
RAILS_ARGUMENT: dict[str, Any] = {
    "type": "list",
    "elements": "dict",
    "required": True,
    "options": {
        "netdev": {"type": "str"},
        "pci": {"type": "str"},
        "address": {"type": "str"},
        "gateway": {"type": "str"},
        "gpus": {"type": "list", "elements": "int"},
    },
}


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

    """
    rails = []
    for index, entry in enumerate(described):
        netdev = entry.get("netdev") or _netdev_of(machine, str(entry.get("pci")).lower(), index)
        if not machine.exists("/sys/class/net/" + netdev):
            raise NotYet(f"rail {index}: there is no network device {netdev}")
        rails.append(
            Rail(
                index,
                netdev,
                rdma_of(machine, netdev),
                pci_of(machine, netdev),
                entry.get("address") or "",
                entry.get("gateway") or "",
            )
        )
    return rails


def _netdev_of(machine: Machine, pci: str, index: int) -> str:
    device = "/sys/bus/pci/devices/" + pci
    if not machine.exists(device):
        raise NotYet(f"rail {index}: there is no PCI device {pci}")
    found = [name for name in machine.names("/sys/class/net") if pci_of(machine, name) == pci]
    if not found:
        raise NotYet(f"rail {index}: PCI device {pci} has no network device; is its driver loaded?")
    # Representors of virtual functions share the address; the port itself is the shortest name.
    return min(found, key=lambda name: (len(name), name))


def pci_of(machine: Machine, netdev: str) -> str:
    """Return the PCI address of a network device, empty if it has none."""
    parts = machine.real(f"/sys/class/net/{netdev}/device").split("/")
    found = [part for part in parts if _is_pci(part)]
    return found[-1] if found else ""


def _is_pci(name: str) -> bool:
    domain, _, rest = name.partition(":")
    bus, _, function = rest.partition(":")
    return len(domain) >= 4 and len(bus) == 2 and len(function) == 4 and function[2] == "."


def rdma_of(machine: Machine, netdev: str) -> str:
    """Return the RDMA device on a network device, empty if there is none."""
    for name in machine.names("/sys/class/infiniband"):
        base = f"/sys/class/infiniband/{name}"
        on = machine.names(base + "/device/net")
        # Soft-RoCE has no device of its own: its network device is its parent.
        on += [machine.value(base + "/parent") or ""]
        on += [machine.value(base + "/ports/1/gid_attrs/ndevs/0") or ""]
        if netdev in on:
            return name
    return ""
