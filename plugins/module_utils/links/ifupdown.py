"""ifupdown: stanzas of ours in /etc/network/interfaces.d. Only a boot (and an admin) reads them."""

from __future__ import annotations

import os
import re

from ..machine import Machine
from ..plan import Plan, Refused
from ..rails import Rail
from .manager import Addressing, LinkManager

MAIN = "/etc/network/interfaces"
DIRECTORY = MAIN + ".d"


class Ifupdown(LinkManager):
    """The links of a node that ifupdown configures."""

    name = "ifupdown"
    directory = DIRECTORY
    prefix = "rdmaprov-fabric-"

    @staticmethod
    def runs(machine: Machine) -> bool:
        """Return whether ifupdown is installed, and so its boot service."""
        return machine.has("ifup") and machine.exists(MAIN)

    def has(self, netdev: str) -> bool:
        """Return whether its files name this device."""
        paths = [MAIN, *(f"{DIRECTORY}/{name}" for name in self.machine.names(DIRECTORY))]
        return any(_addresses(self.machine.read(path) or "", netdev) for path in paths)

    def own_file(self, netdev: str) -> str:
        """Return the file for a device: source-directory leaves out names with a dot."""
        return f"{DIRECTORY}/{self.prefix}{netdev.replace('.', '_')}"

    def address(self, plan: Plan, rail: Rail, wanted: Addressing) -> None:
        """Have the rail come up with its address, routes and rule at boot."""
        self._require_read()
        self._require_no_other(rail.netdev)
        lines = [f"auto {rail.netdev}", *_stanza(rail.netdev, wanted)]
        if rail.parent:
            # Linux Documentation/infiniband/ipoib.rst, "Partitions and P_Keys"
            there, key = f"/sys/class/net/{rail.netdev}", f"0x{rail.pkey:04x}"
            create = f"/sys/class/net/{rail.parent}/create_child"
            lines.append(f"    pre-up test -e {there} || echo {key} > {create}")
        if wanted.ipoib_mode:
            path = f"/sys/class/net/{rail.netdev}/mode"
            lines.append(f"    pre-up echo {wanted.ipoib_mode} > {path}")
        self.plan_address(plan, rail, wanted, self.own_file(rail.netdev), lines)

    def mtu(self, plan: Plan, rail: Rail, mtu_bytes: int) -> None:
        """Have the rail's network device get its MTU at boot."""
        self._require_read()
        path = f"{DIRECTORY}/rdmaprov-mtu-{rail.netdev.replace('.', '_')}"
        lines = [
            f"auto {rail.netdev}",
            f"iface {rail.netdev} inet manual",
            f"    up ip link set dev {rail.netdev} mtu {mtu_bytes}",
        ]
        self.plan_mtu(plan, rail, mtu_bytes, path, lines)

    def read_again(self, netdevs: list[str]) -> list[list[str]]:
        """Return commands that fail if it cannot read its files; none runs that could go by them.

        Its ifup stops at an address that is there already, and an ifdown would cut the rail.
        """
        present = [name for name in netdevs if self.machine.exists("/sys/class/net/" + name)]
        return [["ifquery", netdev] for netdev in present]

    def leftovers(self, plan: Plan, rails: list[Rail]) -> None:
        """Have no files of ours for devices that are no rails any more."""
        wanted = {os.path.basename(self.own_file(rail.netdev)) for rail in rails}
        for name in self.machine.names(DIRECTORY):
            if name.startswith(self.prefix) and name not in wanted:
                plan.absent(f"{DIRECTORY}/{name}")

    def _require_read(self) -> None:
        """Refuse a main file that does not lead to ours."""
        text = self.machine.read(MAIN) or ""
        if not re.search(rf"(?m)^\s*(source(-directory)?)\s+(/etc/network/)?{_D}(/\*)?\s*$", text):
            raise Refused(f"{MAIN} reads no files of {DIRECTORY}. Write: source {DIRECTORY}/*")

    def _require_no_other(self, netdev: str) -> None:
        """Refuse an admin's file that gives the rail an address of its own."""
        others = [name for name in self.machine.names(DIRECTORY) if not name.startswith("rdmaprov")]
        for path in [MAIN, *(f"{DIRECTORY}/{name}" for name in others)]:
            for method in _addresses(self.machine.read(path) or "", netdev):
                if method != "manual":
                    raise Refused(
                        f"{netdev}: {path} configures it (iface {netdev} ... {method}), and so "
                        f"would fabric_rails. Remove the stanza there"
                    )


_D = re.escape("interfaces.d")


def _addresses(text: str, netdev: str) -> list[str]:
    """Return the methods by which a file configures a device."""
    pattern = rf"(?m)^\s*iface\s+{re.escape(netdev)}\s+\S+\s+(\S+)"
    return [str(method) for method in re.findall(pattern, text)]


def _stanza(netdev: str, wanted: Addressing) -> list[str]:
    if not wanted.address:
        return [f"iface {netdev} inet manual", f"    up ip link set dev {netdev} up"]
    family = "inet" if wanted.family == "-4" else "inet6"
    lines = [f"iface {netdev} {family} static", f"    address {wanted.address}"]
    return [*lines, *(["    " + line for line in _routes(netdev, wanted)] if wanted.table else [])]


def _routes(netdev: str, wanted: Addressing) -> list[str]:
    """Return the lines for routes and rule; ip has no `rule replace`, so an old one goes first."""
    ip = f"ip {wanted.family}"
    table = f"dev {netdev} table {wanted.table} proto static"
    lines = [f"up {ip} route replace {wanted.network} {table}"] if wanted.network else []
    if wanted.gateway:
        via = f"via {'inet6 ' if wanted.is_mixed else ''}{wanted.gateway}"
        on_link = " onlink" if wanted.is_on_link else ""
        lines.append(f"up {ip} route replace default {via} {table}{on_link}")
    rule = f"from {wanted.host} lookup {wanted.table} priority {wanted.priority}"
    lines.append(f"pre-up {ip} rule del {rule} 2>/dev/null || true")
    lines.append(f"up {ip} rule add {rule} protocol static")
    return [*lines, f"down {ip} rule del {rule} || true"]
