"""netplan: YAML files of ours, merged with the admin's, for networkd or NetworkManager."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from functools import cached_property

from ..machine import CommandFailed, Machine, NodeError
from ..netdevs import below, kind_of
from ..plan import Plan, Refused, Step
from ..rails import Rail
from .manager import Addressing, LinkManager
from .netplan_get import Definition, parse
from .networkd import Networkd, is_read, match_of

DIRECTORY = "/etc/netplan"
# A file here hides one of its name in a later directory. [netplan's YAML reference, "General"]
_DIRECTORIES = (DIRECTORY, "/run/netplan", "/usr/lib/netplan", "/lib/netplan")
_GENERATE = ["netplan", "generate"]
# Where it writes systemd-networkd's files, and a part of their names.
_WRITTEN_TO, _WRITTEN = "/run/systemd/network", "-netplan-"
# What it deletes and writes anew each time. [netplan src/networkd.c, nm.c, openvswitch.c, sriov.c:
# netplan_*_cleanup, and what these files write]
_GENERATED = re.compile(
    r"/run/(systemd/network/10-netplan-|udev/rules\.d/.*netplan|netplan/wpa-.*\.conf$"
    r"|NetworkManager/(conf\.d/(netplan|10-globally-managed-devices)\.conf$"
    r"|system-connections/netplan-)|systemd/system/.*netplan)"
)
_OURS = re.compile(re.escape(DIRECTORY) + r"/9[01]-rdmaprov-(?:mtu-)?(.+)\.yaml")


class Netplan(LinkManager):
    """The links of a node that netplan's files describe.

    JSON's strings are YAML's; the names and addresses here need no more quoting than its marks.
    """

    name = "netplan"
    directory = DIRECTORY
    prefix = "90-rdmaprov-"
    suffix = ".yaml"
    mode = 0o600  # else it warns: a file may have secrets
    reading_interrupts = "its addresses are removed and added again"

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._networkd = Networkd(machine)
        self._written: dict[str, str] = {}  # by the plan, of systemd-networkd's files

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
        """Have the rail's network device get its MTU at boot, and keep its name.

        With an MTU, netplan writes udev a file for the device, which hides the distribution's
        policy of names; where it is found by its MAC address, the kernel's name would stay.
        """
        path = f"{DIRECTORY}/91-rdmaprov-mtu-{rail.netdev}.yaml"
        lines = [*self._head(rail.netdev), f"      mtu: {mtu_bytes}"]
        if self._is_unnamed(rail.netdev):
            lines.append(f'      set-name: "{rail.netdev}"')
        self.plan_mtu(plan, rail, mtu_bytes, path, lines)

    def interrupted(self, netdevs: list[str]) -> list[str]:
        """Return the devices that systemd-networkd configures anew; none if it reads no files."""
        found = self._networkd.disturbed(self._written) if self._has_networkd else []
        return [] if self._others(netdevs, found) else found

    def read_again(self, netdevs: list[str]) -> list[list[str]]:  # noqa: ARG002
        """Return the command by which NetworkManager reads what netplan wrote for it.

        Not `netplan apply`, which takes links down that it does not have to.
        """
        is_there = self.machine.exists("/run/NetworkManager")
        return [["nmcli", "connection", "reload"]] if is_there else []

    def check(self, netdevs: list[str]) -> None:
        """Return once systemd-networkd has configured the devices by what netplan wrote for it."""
        if not any(_WRITTEN in name for name in self.machine.names(_WRITTEN_TO)):
            return  # NetworkManager is the renderer
        if self._networkd.disturbed({}):
            return  # it was not to read them

        def goes_by_its_file(netdev: str) -> bool:
            is_ours = self.machine.exists(self.own_file(netdev))
            return _WRITTEN in self._networkd.file_in_use(netdev) or not is_ours

        self._networkd.wait(netdevs, goes_by_its_file)

    def settle(self, plan: Plan) -> None:
        """Have all that was written in force; raise Refused if netplan does not take the files."""
        changed = _files(plan)
        if changed:
            self._written = self._require_taken({path: now for path, (_, now) in changed.items()})
        super().settle(plan)
        self._note_unread(plan)

    def plan_reading(self, plan: Plan, netdevs: list[str]) -> None:
        """Have the renderer's files as netplan would write them, and the renderer read them."""
        before = {path: text for path, (text, _) in _files(plan).items()}
        plan.steps.append(Step(None, lambda: self._install_or_take_back(before)))
        if self._has_networkd:
            plan.steps.append(Step(None, lambda: self._reload(netdevs)))
        super().plan_reading(plan, netdevs)

    @property
    def _has_networkd(self) -> bool:
        return Networkd.runs(self.machine)

    def _others(self, netdevs: list[str], disturbed: list[str]) -> list[str]:
        """Return the devices that are neither those nor ports of a bond among them."""
        bonds = [each for each in netdevs if kind_of(self.machine, each) == "bond"]
        ours = {*netdevs, *(port for bond in bonds for port in below(self.machine, bond))}
        return [each for each in disturbed if each not in ours]

    def _reload(self, netdevs: list[str]) -> None:
        """Have systemd-networkd read its files, unless that disturbs devices that are not ours.

        netplan's generator writes all of them anew at each `systemctl daemon-reload`, as after the
        installation of a package (netplan pull request 529).
        """
        if not self._others(netdevs, self._networkd.disturbed({})):
            self._networkd.reload(self._ours())

    def _ours(self) -> list[str]:
        names = (f"{DIRECTORY}/{name}" for name in self.machine.names(DIRECTORY))
        return [path for path in names if _OURS.match(path)]

    def _note_unread(self, plan: Plan) -> None:
        """Say what systemd-networkd will only know after a boot, and why."""
        if not self._has_networkd:
            return
        late = [path for path in self._ours() if not self._networkd.has_read(path)]
        netdevs = [*self._unread, *(_OURS.sub(r"\1", path) for path in late)]
        others = self._others(netdevs, self._networkd.disturbed(self._written)) if netdevs else []
        if others:
            plan.notes.append(
                "netplan: systemd-networkd reads rdmaprov's files at the next boot; their settings "
                f"run already. Reading them now would interrupt {', '.join(others)}, whose files "
                "are newer than its last reading"
            )

    def _require_taken(self, texts: dict[str, str]) -> dict[str, str]:
        """Return what systemd-networkd will have to read: the files' sections [Match].

        Raises:
            Refused: with these files netplan would write nothing, at a boot neither.
        """
        asked = f"netplan takes {sorted(texts.items())}"
        return dict(self.machine.ask(asked, lambda: self._try(texts)) or {})

    def _try(self, texts: dict[str, str]) -> dict[str, str]:
        with self._copy(lambda path: path not in texts) as root:
            for path, text in texts.items():
                if text:
                    Machine(root).write(path, text, self.mode)
            self._run_on(root, _GENERATE)
            changed = [path for path in self._different(root) if is_read(path)]
            return {path: match_of(Machine(root).read(path) or "") for path in changed}

    def _different(self, root: str) -> list[str]:
        """Return the files below /run that netplan would have otherwise than they are."""
        there, wanted = _generated(self.machine.root), _generated(root)
        return [path for path in sorted({*there, *wanted}) if there.get(path) != wanted.get(path)]

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
                f"netplan rejects {place[0] if place else why}. Nothing was changed. Correct "
                "that file"
            ) from error

    def _install_or_take_back(self, before: dict[str, str]) -> None:
        """Have the renderer's files; if that fails, take ours back."""
        try:
            self._install()
        except (NodeError, OSError) as error:
            for path, text in before.items():
                if text:
                    self.machine.write(path, text, self.mode)
                else:
                    self.machine.remove(path)
            with contextlib.suppress(NodeError, OSError):
                self._install()
            raise NodeError(f"{error}. rdmaprov's netplan files are unchanged") from error

    def _install(self) -> None:
        """Write what differs, and no file else.

        `netplan generate` deletes and writes all, and for systemd-networkd a file with another time
        is another one.
        """
        with self._copy(lambda _: True) as root:
            umask = os.umask(0o022)  # as at a boot: whoever reads these files may not be root
            try:
                self.machine.run([*_GENERATE, "--root-dir", root])
            finally:
                os.umask(umask)
            for path in self._different(root):
                new = Machine(root).path(path)
                if os.path.lexists(new):
                    _replace(new, self.machine.path(path))
                else:
                    self.machine.remove(path)

    def _is_unnamed(self, netdev: str) -> bool:
        alone, _ = self._theirs(netdev, "ethernets")
        return bool(alone and alone[0].match.get("macaddress") and not alone[0].set_name)

    def _theirs(self, netdev: str, section: str) -> tuple[list[Definition], list[Definition]]:
        """Return the admin's definitions that are for a device alone, and all that may be for it.

        Args:
            section: empty for any.
        """
        mac = (self.machine.value(f"/sys/class/net/{netdev}/address") or "none").lower()
        driver = os.path.basename(self.machine.real(f"/sys/class/net/{netdev}/device/driver"))
        found = [each for each in self._definitions if section in ("", each.section)]
        wide = [each for each in found if each.may_be_for(netdev, mac, driver)]
        return [each for each in wide if each.is_for(netdev, mac, driver)], wide

    def _head(self, netdev: str) -> list[str]:
        """Return the lines that begin a file for a device: in the admin's section, by its name."""
        uevent = self.machine.read(f"/sys/class/net/{netdev}/uevent") or ""
        kind = re.search(r"(?m)^DEVTYPE=(bond|vlan|bridge)$", uevent)
        # The devices below a bond or VLAN have its MAC address, too.
        section = f"{kind[1]}s" if kind else ""
        alone, wide = self._theirs(netdev, section)
        if alone:
            return _lines(alone[0].section, alone[0].name)
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
                    f"{DIRECTORY}/{name} makes NetworkManager configure links, and netplan writes "
                    "no routing rules for it. Write fabric_link_manager: NetworkManager, or "
                    "renderer: networkd there"
                )


def _lines(section: str, name: str) -> list[str]:
    return ["network:", "  version: 2", f"  {section}:", f'    "{name}":']


def _generated(root: str) -> dict[str, str | bytes]:
    """Return the contents of netplan's files below /run of a tree, and the targets of links."""
    found: dict[str, str | bytes] = {}
    for directory, _, names in os.walk(os.path.join(root, "run")):
        for name in names:
            there = os.path.join(directory, name)
            path = "/" + os.path.relpath(there, root)
            if not _GENERATED.match(path):
                continue
            if os.path.islink(there):
                found[path] = os.readlink(there)
            else:
                with open(there, "rb") as file:
                    found[path] = file.read()
    return found


def _replace(new: str, path: str) -> None:
    """Have a file or link as another one is, with its access, whole or not at all."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".rdmaprov-", dir=os.path.dirname(path)) as beside:
        copy = os.path.join(beside, "new")
        shutil.copy2(new, copy, follow_symlinks=False)
        access = os.lstat(new)
        os.chown(copy, access.st_uid, access.st_gid, follow_symlinks=False)
        if not os.path.islink(new):
            os.chmod(copy, stat.S_IMODE(access.st_mode))
        os.replace(copy, path)


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
