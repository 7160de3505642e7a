"""What configures a node's links at boot, and how to have it set what a rail needs."""

from __future__ import annotations

from typing import Protocol

from ..machine import Machine
from ..plan import NotYet, Plan
from ..rails import Rail
from .networkd import Networkd


class LinkManager(Protocol):
    """One of the programs that configure links.

    Each method adds the steps by which the links are configured as described at the next boot,
    and the manager knows it now; it changes nothing by itself. A file has one owner: methods
    of different roles write different files.
    """

    name: str

    def mtu(self, plan: Plan, rail: Rail, mtu_bytes: int) -> None:
        """Have the rail's network device get its MTU at boot. For the role mtu."""


MANAGERS = {"systemd-networkd": Networkd}


def manager_of(machine: Machine, wanted: str) -> LinkManager:
    """Return what manages the node's links: what the site names, or what runs.

    Raises:
        NotYet: none of those that are known runs.

    """
    if wanted != "auto":
        return MANAGERS[wanted](machine)
    for manager in MANAGERS.values():
        if manager.runs(machine):
            return manager(machine)
    raise NotYet(
        "nothing that rdmaprov knows manages this node's links ({}); "
        "write fabric_link_manager".format(", ".join(MANAGERS))
    )
