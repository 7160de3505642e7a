"""The port of a rail that a subnet manager binds to. Runs on the node."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .. import rails
from ..machine import Machine
from ..plan import NotYet, Refused

_INFINIBAND = "/sys/class/infiniband"
_GID = re.compile(r"([0-9a-f]{4}:){4}(([0-9a-f]{4}:){3}[0-9a-f]{4})")


@dataclass(frozen=True)
class Port:
    """A port of InfiniBand."""

    rail: int
    device: str
    number: int  # of the port on it, as the tools count
    guid: int

    @property
    def options(self) -> list[str]:
        """Return what tells a tool of infiniband-diags to ask through this port."""
        return ["-C", self.device, "-P", str(self.number)]


def find(machine: Machine, described: list[dict[str, Any]], index: int) -> Port:
    """Return the port of a rail; it needs no network device.

    Raises:
        NotYet: its device is not there.
        Refused: there is no such rail, or it is no port of InfiniBand.
    """
    if index >= len(described):
        raise Refused(
            f"subnet_manager_rails: there is no rail {index}; fabric_rails has {len(described)}"
        )
    device = _device(machine, described[index], index)
    number = min(
        (int(name) for name in machine.names(f"{_INFINIBAND}/{device}/ports") if name.isdigit()),
        default=0,
    )
    base = f"{_INFINIBAND}/{device}/ports/{number}"
    layer = machine.value(f"{base}/link_layer")
    if layer is None:
        raise NotYet(f"rail {index}: RDMA device {device} has no port ({_INFINIBAND})")
    if layer != "InfiniBand":
        raise Refused(
            f"rail {index}: the link layer of {device} is {layer}, and a subnet manager needs "
            f"InfiniBand ({base}/link_layer). Name another rail in subnet_manager_rails"
        )
    found = _GID.fullmatch(machine.value(f"{base}/gids/0") or "")
    if found is None:
        raise NotYet(f"rail {index}: {device} has no GID yet ({base}/gids/0)")
    return Port(index, device, number, int(found[2].replace(":", ""), 16))


def _device(machine: Machine, entry: dict[str, Any], index: int) -> str:
    """Return the RDMA device of a rail: by its name, its PCI function or its network device."""
    devices = machine.names(_INFINIBAND)
    if entry.get("rdma"):
        found = [name for name in devices if name == entry["rdma"]]
    elif entry.get("pci"):
        pci = str(entry["pci"]).lower()
        found = [name for name in devices if rails.pci_of_rdma(machine, name) == pci]
    else:
        found = [name for name in [rails.rdma_of(machine, str(entry.get("netdev")))] if name]
    if not found:
        raise NotYet(f"rail {index}: its RDMA device is not there ({_INFINIBAND})")
    return found[0]
