"""netplan: YAML files of ours, merged with the admin's, for networkd or NetworkManager."""

from __future__ import annotations

import re

from ..machine import Machine
from ..plan import Plan, Refused
from ..rails import Rail
from .manager import Addressing, LinkManager

DIRECTORY = "/etc/netplan"


class Netplan(LinkManager):
    """The links of a node that netplan's files describe.

    JSON's strings are YAML's; the names and addresses here need no more quoting than its marks.
    """

    name = "netplan"
    directory = DIRECTORY
    prefix = "90-rdmaprov-"
    suffix = ".yaml"
    mode = 0o600  # else it warns: a file may have secrets

    @staticmethod
    def runs(machine: Machine) -> bool:
        """Return whether netplan's files describe links of the node."""
        if not machine.has("netplan"):
            return False
        return any(name.endswith(".yaml") for name in machine.names(DIRECTORY))

    def has(self, netdev: str) -> bool:  # noqa: ARG002
        """Return True: where it is used, all links are its."""
        return True

    def address(self, plan: Plan, rail: Rail, wanted: Addressing) -> None:
        """Have the rail come up with its address, routes and rule at boot.

        Raises:
            Refused: NetworkManager is to configure it, and netplan would write it no rule.

        """
        if wanted.table:
            self._require_rules()
        lines = [*_link(rail.netdev), "      optional: true"]
        if wanted.address:
            lines += [
                "      accept-ra: false",
                "      addresses:",
                f'        - "{wanted.address}"',
                *_routes(wanted),
            ]
        self.plan_address(plan, rail, wanted, self.own_file(rail.netdev), lines)

    def mtu(self, plan: Plan, rail: Rail, mtu_bytes: int) -> None:
        """Have the rail's network device get its MTU at boot."""
        path = f"{DIRECTORY}/91-rdmaprov-mtu-{rail.netdev}.yaml"
        lines = [*_link(rail.netdev), f"      mtu: {mtu_bytes}"]
        self.plan_mtu(plan, rail, mtu_bytes, path, lines)

    def read_again(self, netdevs: list[str]) -> list[list[str]]:  # noqa: ARG002
        """Return the commands by which the renderer's files follow, and the renderer reads them.

        Not `netplan apply`, which takes links down that it does not have to.
        """
        commands = [["netplan", "generate"]]
        if self.machine.exists("/run/systemd/netif/state"):
            commands.append(["networkctl", "reload"])
        if self.machine.exists("/run/NetworkManager"):
            commands.append(["nmcli", "connection", "reload"])
        return commands

    def _require_rules(self) -> None:
        """Refuse a renderer that gets no rules: seen with netplan 0.106, which says nothing."""
        for name in self.machine.names(DIRECTORY):
            text = self.machine.read(f"{DIRECTORY}/{name}") or ""
            if name.endswith(".yaml") and re.search(r"(?m)^[^#]*renderer:\s*NetworkManager", text):
                raise Refused(
                    f"{DIRECTORY}/{name} has NetworkManager configure links, and netplan writes it "
                    "no routing rules. Write fabric_link_manager: NetworkManager, or "
                    "renderer: networkd there"
                )


def _link(netdev: str) -> list[str]:
    return ["network:", "  version: 2", "  ethernets:", f'    "{netdev}":']


def _routes(wanted: Addressing) -> list[str]:
    if not wanted.table:
        return []
    table = f"          table: {wanted.table}"
    lines = ["      routes:", f'        - to: "{wanted.network}"', table]
    if wanted.gateway:
        every = "0.0.0.0/0" if wanted.family == "-4" else "::/0"
        lines += [f'        - to: "{every}"', f'          via: "{wanted.gateway}"', table]
    lines += ["      routing-policy:", f'        - from: "{wanted.host}"']
    return [*lines, table, f"          priority: {wanted.priority}"]
