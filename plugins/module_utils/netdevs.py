"""What network devices stand on: bonds on their ports, VLANs on a device. Runs on the node."""

from __future__ import annotations

import re

from .machine import Machine

_NET = "/sys/class/net/"


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
