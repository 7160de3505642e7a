"""systemd-networkd: a .network file of ours for each rail, or drop-ins beside the admin's."""

from __future__ import annotations

import os

from ..machine import Machine
from ..plan import CONFIGURED, Change, Plan
from ..rails import Rail

DIRECTORY = "/etc/systemd/network"
HEADER = "# Written by rdmaprov ({role}); changes here are lost.\n"


class Networkd:
    """The links of a node that systemd-networkd manages."""

    name = "systemd-networkd"

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    @staticmethod
    def runs(machine: Machine) -> bool:
        """Return whether systemd-networkd runs on the node."""
        return machine.exists("/run/systemd/netif/state")

    def mtu(self, plan: Plan, rail: Rail, mtu_bytes: int) -> None:
        """Have the rail's network device get its MTU at boot."""
        text = HEADER.format(role="mtu") + f"[Link]\nMTUBytes={mtu_bytes}\n"
        path = f"{self.file_of(rail.netdev)}.d/rdmaprov-mtu.conf"
        seen = "none" if self.machine.read(path) is None else "another"
        change = Change(CONFIGURED, rail.netdev, "MTU", seen, str(mtu_bytes))
        if plan.file(path, text, change=change):
            plan.then(["networkctl", "reload"])

    def file_of(self, netdev: str) -> str:
        """Return the .network file in /etc that is the device's: an admin's, or ours."""
        index = self.machine.value(f"/sys/class/net/{netdev}/ifindex") or ""
        state = self.machine.read("/run/systemd/netif/links/" + index) or ""
        for line in state.splitlines():
            if line.startswith("NETWORK_FILE="):
                return os.path.join(DIRECTORY, os.path.basename(line.partition("=")[2]))
        return self.own_file(netdev)

    def own_file(self, netdev: str) -> str:
        """Return the .network file that rdmaprov writes for a device without one."""
        return f"{DIRECTORY}/20-rdmaprov-{netdev}.network"
