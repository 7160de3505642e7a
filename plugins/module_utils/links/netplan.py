"""netplan: YAML files of ours, merged with the admin's, for networkd or NetworkManager."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cached_property

from ..machine import CommandFailed, Machine, NodeError
from ..plan import Plan, Refused, Step
from ..rails import Rail
from .manager import Addressing, LinkManager
from .netplan_get import Definition, parse
from .networkd import Networkd

DIRECTORY = "/etc/netplan"
# A file here hides one of its name in a later directory. [netplan's YAML reference, "General"]
_DIRECTORIES = (DIRECTORY, "/run/netplan", "/usr/lib/netplan", "/lib/netplan")
_GENERATE = ["netplan", "generate"]
# Where it writes systemd-networkd's files, and a part of their names.
_WRITTEN_TO, _WRITTEN = "/run/systemd/network", "-netplan-"
_OURS = re.compile(re.escape(DIRECTORY) + r"/9[01]-rdmaprov-")


class Netplan(LinkManager):
    """The links of a node that netplan's files describe.

    JSON's strings are YAML's; the names and addresses here need no more quoting than its marks.
    """

    name = "netplan"
    directory = DIRECTORY
    prefix = "90-rdmaprov-"
    suffix = ".yaml"
    mode = 0o600  # else it warns: a file may have secrets
    reading_interrupts = "its addresses go and come back"

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
            Refused: NetworkManager is to configure it, and netplan would write it no rule; or
                its files say nothing of this device alone.

        """
        wanted.require_not_mixed(rail, self.name)
        if rail.parent:  # [netplan's YAML reference: it has infiniband-mode alone]
            raise Refused(
                f"{rail.netdev}: netplan makes no IPoIB interfaces of partitions (ipoib_pkey). "
                "Name another fabric_link_manager"
            )
        if wanted.table:
            self._require_rules()
        lines = [*self._head(rail.netdev), "      optional: true"]
        if wanted.ipoib_mode:
            lines.append(f"      infiniband-mode: {wanted.ipoib_mode}")
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
        lines = [*self._head(rail.netdev), f"      mtu: {mtu_bytes}"]
        self.plan_mtu(plan, rail, mtu_bytes, path, lines)

    def interrupted(self, netdevs: list[str]) -> list[str]:
        """Return the devices, if systemd-networkd has them; NetworkManager only reads its files."""
        return netdevs if self.machine.exists("/run/systemd/netif/state") else []

    def read_again(self, netdevs: list[str]) -> list[list[str]]:  # noqa: ARG002
        """Return the commands by which the renderer reads the files that netplan wrote for it.

        Not `netplan apply`, which takes links down that it does not have to.
        """
        commands = []
        if self.machine.exists("/run/systemd/netif/state"):
            commands.append(["networkctl", "reload"])
        if self.machine.exists("/run/NetworkManager"):
            commands.append(["nmcli", "connection", "reload"])
        return commands

    def check(self, netdevs: list[str]) -> None:
        """Return once systemd-networkd has configured the devices by what netplan wrote for it."""
        if not any(_WRITTEN in name for name in self.machine.names(_WRITTEN_TO)):
            return  # NetworkManager is the renderer
        networkd = Networkd(self.machine)

        def goes_by_its_file(netdev: str) -> bool:
            is_ours = self.machine.exists(self.own_file(netdev))
            return _WRITTEN in networkd.file_in_use(netdev) or not is_ours

        networkd.wait(netdevs, goes_by_its_file)

    def settle(self, plan: Plan) -> None:
        """Have all that was written in force.

        Raises:
            Refused: netplan does not take the files that the plan would leave.

        """
        changed = _files(plan)
        if changed:
            self._require_taken({path: after for path, (_, after) in changed.items()})
        super().settle(plan)

    def plan_reading(self, plan: Plan, netdevs: list[str]) -> None:
        """Have netplan write the renderer's files, and the renderer read them."""
        before = {path: text for path, (text, _) in _files(plan).items()}
        plan.steps.append(Step(None, lambda: self._generate(before)))
        super().plan_reading(plan, netdevs)

    def _require_taken(self, texts: dict[str, str]) -> None:
        """Refuse files with which netplan would write nothing, at a boot neither."""
        self.machine.ask(f"netplan takes {sorted(texts.items())}", lambda: self._try(texts))

    def _try(self, texts: dict[str, str]) -> None:
        with self._copy(lambda path: path not in texts) as root:
            for path, text in texts.items():
                if text:
                    Machine(root).write(path, text, self.mode)
            self._run_on(root, _GENERATE)

    @contextlib.contextmanager
    def _copy(self, keep: Callable[[str], bool]) -> Iterator[str]:
        """Provide a tree with the files to keep."""
        with tempfile.TemporaryDirectory(prefix="rdmaprov-netplan-") as root:
            for directory in _DIRECTORIES:
                there = os.path.join(root, directory.lstrip("/"))
                os.makedirs(there, exist_ok=True)
                for name in self.machine.names(directory):
                    path = f"{directory}/{name}"
                    if name.endswith(".yaml") and keep(path):
                        shutil.copy(self.machine.path(path), there)
            yield root

    def _run_on(self, root: str, argv: list[str]) -> str:
        try:
            return self.machine.run([*argv, "--root-dir", root])
        except CommandFailed as error:
            why = error.output.replace(root, "")
            place = re.search(r"/\S+\.yaml:\d+:\d+: .*", why)  # `get` has it behind a traceback
            raise Refused(
                f"netplan does not take {place[0] if place else why}. Nothing was changed. Correct "
                "that file"
            ) from error

    def _generate(self, before: dict[str, str]) -> None:
        """Have the renderer's files written; if that fails, take ours back."""
        try:
            self.machine.run(_GENERATE)
        except CommandFailed as error:
            for path, text in before.items():
                if text:
                    self.machine.write(path, text, self.mode)
                else:
                    self.machine.remove(path)
            with contextlib.suppress(NodeError):
                self.machine.run(_GENERATE)
            raise NodeError(f"{error}. rdmaprov's files of netplan are as they were") from error

    def _head(self, netdev: str) -> list[str]:
        """Return the lines that begin a file for a device: in the admin's section, by its name."""
        mac = (self.machine.value(f"/sys/class/net/{netdev}/address") or "none").lower()
        uevent = self.machine.read(f"/sys/class/net/{netdev}/uevent") or ""
        kind = re.search(r"(?m)^DEVTYPE=(bond|vlan|bridge)$", uevent)
        section = f"{kind[1]}s" if kind else ""
        # The devices below a bond or VLAN have its MAC address, too.
        found = [each for each in self._definitions if not section or each.section == section]
        theirs = [each for each in found if each.is_for(netdev, mac)]
        if theirs:
            return _lines(theirs[0].section, theirs[0].name)
        wide = [each for each in found if each.may_be_for(netdev)]
        if wide:
            raise Refused(
                f"netplan's {wide[0].section}: {wide[0].name}: matches {netdev} and may match "
                f"others. Write a definition for {netdev} alone"
            )
        if kind:
            raise Refused(
                f"{netdev} is a {kind[1]}, and netplan has none of this name in {section}. Define "
                "it there, or name its link manager in fabric_link_manager"
            )
        return _lines("ethernets", netdev)

    @cached_property
    def _definitions(self) -> list[Definition]:
        """Return what the admin's files say; raise Refused if netplan cannot read them."""
        return parse(self.machine.ask("netplan get, without our files", self._get))

    def _get(self) -> str:
        with self._copy(lambda path: _OURS.match(path) is None) as root:
            return self._run_on(root, ["netplan", "get"])

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


def _lines(section: str, name: str) -> list[str]:
    return ["network:", "  version: 2", f"  {section}:", f'    "{name}":']


def _files(plan: Plan) -> dict[str, tuple[str, str]]:
    """Return netplan's files that a plan changes: the text before and after; empty for none."""
    diffs = [diff for diff in plan.diffs() if diff["after_header"].startswith(f"{DIRECTORY}/")]
    return {diff["after_header"]: (diff["before"], diff["after"]) for diff in diffs}


def _routes(wanted: Addressing) -> list[str]:
    if not wanted.table:
        return []
    table = f"          table: {wanted.table}"
    lines = ["      routes:"]
    lines += [f'        - to: "{wanted.network}"', table] if wanted.network else []
    if wanted.gateway:
        every = "0.0.0.0/0" if wanted.family == "-4" else "::/0"
        lines += [f'        - to: "{every}"', f'          via: "{wanted.gateway}"', table]
        lines += ["          on-link: true"] if wanted.is_on_link else []
    lines += ["      routing-policy:", f'        - from: "{wanted.host}"']
    return [*lines, table, f"          priority: {wanted.priority}"]
