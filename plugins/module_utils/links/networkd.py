"""systemd-networkd: a .network file of ours for each rail, or drop-ins beside the admin's."""

from __future__ import annotations

import fnmatch
import ipaddress
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from ..machine import Machine, NodeError
from ..plan import Plan, Refused
from ..rails import Rail
from .manager import HEADER, Addressing, LinkManager

DIRECTORY = "/etc/systemd/network"
# Where it reads files, the first that has a name counting. [systemd.network(5)]
_DIRECTORIES = (DIRECTORY, *(f"/{x}/systemd/network" for x in ("run", "usr/local/lib", "usr/lib")))
_LINKS = "/run/systemd/netif/links/"
# What it had read when a role last had it read; a boot reads all anew.
_READ = "/run/rdmaprov/networkd-read.json"
_SETTLE_S = 15
_NETDEV = ".netdev"
# systemd's NEWS, "CHANGES WITH 250": "systemd-networkd and systemd-udevd now support IP over
# InfiniBand interfaces. The Kind= setting in .netdev file accepts "ipoib". And systemd.netdev files
# gained the [IPoIB] section." systemd.network(5) has the section since then, too.
_HAS_IPOIB = 250
# It starts a moment after `networkctl reload` has ended, and writes down where it is after that.
_START_S = 1
# What matches one device, unless it has a wildcard (systemd.network(5), section [Match]).
_ONE_DEVICE = ("Name", "MACAddress", "PermanentMACAddress", "Path")


class Networkd(LinkManager):
    """The links of a node that systemd-networkd manages."""

    name = "systemd-networkd"
    directory = DIRECTORY
    prefix = "20-rdmaprov-"
    suffix = ".network"
    reading_interrupts = "its addresses are removed and added again"

    @staticmethod
    def runs(machine: Machine) -> bool:
        """Return whether systemd-networkd runs on the node."""
        return machine.exists("/run/systemd/netif/state")

    def has(self, netdev: str) -> bool:
        """Return whether it configures this device now."""
        return self._state(netdev, "ADMIN_STATE") not in ("", "unmanaged")

    def address(self, plan: Plan, rail: Rail, wanted: Addressing) -> None:
        """Have the rail come up with its address, routes and rule at boot."""
        if rail.parent:
            self._plan_partition(plan, rail, wanted)
        path, own = self.fabric_file(rail.netdev), self.own_file(rail.netdev)
        if path == own:
            lines = _whole(rail.netdev, wanted)
        else:
            self._require_no_other(rail.netdev, wanted)
            if self.machine.exists(own):
                self.unread(plan, rail.netdev)
                plan.absent(own)
            lines = ["[Network]", "ConfigureWithoutCarrier=yes", *_addressing(wanted)]
        if wanted.ipoib_mode:
            self._require_ipoib(rail)
            lines = [*lines, "", "[IPoIB]", f"Mode={wanted.ipoib_mode}"]
        self.plan_address(plan, rail, wanted, path, lines)

    def _plan_partition(self, plan: Plan, rail: Rail, wanted: Addressing) -> None:
        """Have a boot make the rail's partition interface on the port's own device."""
        self._require_ipoib(rail)
        if wanted.ipoib_mode == "connected":
            raise Refused(
                f"{rail.netdev}: systemd-networkd makes it without /sys/class/net/{rail.netdev}/"
                "mode, which shows connected mode. Write fabric_ipoib_mode: datagram, or another "
                "fabric_link_manager"
            )
        key = f"0x{rail.pkey:04x}"
        lines = ["[NetDev]", f"Name={rail.netdev}", "Kind=ipoib", "", "[IPoIB]"]
        text = HEADER.format(role="fabric") + "\n".join([*lines, f"PartitionKey={key}"]) + "\n"
        path = self.own_file(rail.netdev)[: -len(self.suffix)] + _NETDEV
        self.plan_file(plan, rail, "IPoIB partition", key, path, text)
        path, link = self.fabric_file(rail.parent), f"IPoIB={rail.netdev}"
        lines = ["[Network]", link]
        if path == self.own_file(rail.parent):
            lines = [*_whole(rail.parent, Addressing("")), link]
        text = HEADER.format(role="fabric") + "\n".join(lines) + "\n"
        self.plan_file(plan, replace(rail, netdev=rail.parent), "partition", key, path, text)

    def leftovers(self, plan: Plan, rails: list[Rail]) -> None:
        """Have no files of ours for devices that are no rails any more, nor a rail's partition."""
        super().leftovers(plan, rails)
        wanted = {f"{self.prefix}{rail.netdev}{_NETDEV}" for rail in rails if rail.parent}
        for name in self.machine.names(DIRECTORY):
            if name.startswith(self.prefix) and name.endswith(_NETDEV) and name not in wanted:
                plan.absent(f"{DIRECTORY}/{name}")

    def fabric_file(self, netdev: str) -> str:
        """Return our own file, or our drop-in beside an admin's."""
        path = self.file_of(netdev)
        return path if path == self.own_file(netdev) else path + ".d/rdmaprov-fabric.conf"

    def mtu(self, plan: Plan, rail: Rail, mtu_bytes: int) -> None:
        """Have the rail's network device get its MTU at boot."""
        path = f"{self.file_of(rail.netdev)}.d/rdmaprov-mtu.conf"
        self.plan_mtu(plan, rail, mtu_bytes, path, ["[Link]", f"MTUBytes={mtu_bytes}"])

    def read_again(self, netdevs: list[str]) -> list[list[str]]:  # noqa: ARG002
        """Return the command by which it reads its files, and configures what they change."""
        return [["networkctl", "reload"]]

    def check(self, netdevs: list[str]) -> None:
        """Raise NodeError if it does not go by our own file of one of these devices."""
        self.wait(netdevs, self._uses_own)
        for netdev in netdevs:
            if not self._uses_own(netdev):
                raise NodeError(
                    f"{netdev}: systemd-networkd uses {self.file_in_use(netdev) or 'no file'}, "
                    f"expected {self.own_file(netdev)} ({_LINKS}{self._index(netdev)}). "
                    f"Run on the node: networkctl status {netdev}"
                )

    def wait(self, netdevs: list[str], goes_by_its_file: Callable[[str], bool]) -> None:
        """Wait until it has configured the devices, each by its file, but not for ever.

        On the way there it takes addresses away and gives them again.
        """
        time.sleep(_START_S)
        until = time.monotonic() + _SETTLE_S
        while time.monotonic() < until:
            if all(goes_by_its_file(each) and self._is_settled(each) for each in netdevs):
                return
            time.sleep(0.2)

    def disturbed(self, written: Mapping[str, str]) -> list[str]:
        """Return the devices that `networkctl reload` would configure anew, sorted.

        A file counts as changed by its inode, size and time, whatever its text: a link whose file
        is rewritten word for word loses its lease, too [systemd src/shared/conf-parser.c,
        stats_by_path_equal; src/network/networkd-network.c, network_reload].

        Args:
            written: the files that will have changed by then, each with its text; empty for none.
        """
        unread = {path: self._text(path) for path in self._files() if not self.has_read(path)}
        unread.update(written)
        return sorted(
            netdev
            for netdev in self.machine.names("/sys/class/net")
            if any(self._concerns(netdev, path, text) for path, text in unread.items())
        )

    def reload(self, made_of: list[str]) -> None:
        """Have it read its files, and remember what they were, and those that they are made of."""
        seen = {path: self.machine.stamp(path) for path in (*self._files(), *made_of)}
        self.machine.run(["networkctl", "reload"])
        self.machine.write(_READ, json.dumps(seen))

    def has_read(self, path: str) -> bool:
        """Return whether it read a file as it is now: at its start, or when a role had it read."""
        stamp = self.machine.stamp(path)
        known = json.loads(self.machine.read(_READ) or "{}")
        return stamp is None or known.get(path) == stamp or stamp[1] <= self._start_ns

    @cached_property
    def _start_ns(self) -> int:
        """Return when it started, in ns since 1970; the earlier where the clock was set since."""
        unit = ["--timestamp=unix", "systemd-networkd.service"]
        names = ["-p", "ActiveEnterTimestamp", "-p", "ActiveEnterTimestampMonotonic"]
        shown = self.machine.run(["systemctl", "show", *names, *unit])
        then = re.search(r"(?m)^ActiveEnterTimestamp=@(\d+)$", shown)
        since_boot = re.search(r"(?m)^ActiveEnterTimestampMonotonic=(\d+)$", shown)
        if then is None or since_boot is None:
            return 0
        boot_ns = self.machine.ask(
            "boot by the clock", lambda: time.time_ns() - time.monotonic_ns()
        )
        return min((int(then[1]) + 1) * 10**9, int(boot_ns) + int(since_boot[1]) * 1000)

    def _files(self) -> Iterator[str]:
        """Return the files of links and of their drop-ins."""
        for directory in _DIRECTORIES:
            for name in self.machine.names(directory):
                path = f"{directory}/{name}"
                if is_read(path):
                    yield path
                elif name.endswith(".network.d"):
                    yield from (f"{path}/{each}" for each in self.machine.names(path))

    def _text(self, path: str) -> str:
        """Return a file's text; of a .netdev file its name alone, as it may hold keys."""
        if not path.endswith(_NETDEV):
            return self.machine.read(path) or ""
        name = re.compile(r"(?m)^Name=.*$")
        found = self.machine.ask(
            f"name in {path}", lambda: name.findall(self.machine.read(path) or "")
        )
        return str((found or [""])[0])

    def _concerns(self, netdev: str, path: str, text: str) -> bool:
        """Return whether a file that it has not read is for this device, or will be."""
        used = self.file_in_use(netdev)
        name = os.path.basename(path)
        if path.endswith(_NETDEV):
            made = re.search(r"(?m)^Name=(\S+)", text)
            kept = re.escape(made[1]) if made else "$."
            own = self.machine.read(used) if used else None
            return bool(re.search(rf"(?m)^\w+={kept}$", own or ""))
        if path.endswith(".conf"):
            return bool(used) and os.path.basename(os.path.dirname(path)) == (
                os.path.basename(used) + ".d"
            )
        if used and os.path.basename(used) <= name:
            return os.path.basename(used) == name
        place = f"/sys/class/net/{netdev}"
        address = self.machine.value(f"{place}/address") or ""
        own = self.machine.value(f"{place}/bonding_slave/perm_hwaddr") or address
        known = {"Name": netdev, "MACAddress": address, "PermanentMACAddress": own}
        link = f"{place}/device/driver"
        if self.machine.exists(link) and self.machine.value(f"{place}/type") == "1":
            known["Driver"] = os.path.basename(self.machine.real(link))
        return _may_match(text, known)

    def file_of(self, netdev: str) -> str:
        """Return the .network file in /etc that is the device's: an admin's, or ours.

        Raises:
            Refused: an admin's file configures other devices too, and comes before ours.
        """
        found, own = self.file_in_use(netdev), self.own_file(netdev)
        text = self.machine.read(found) if found else None
        if found == own or text is None:
            return own
        if _is_for_one(text):
            return f"{DIRECTORY}/{os.path.basename(found)}"
        if os.path.basename(found) > os.path.basename(own):
            return own
        raise Refused(
            f"{netdev}: {found} configures more than this device, and comes before {own}. "
            f"Write a file for it alone ([Match] Name={netdev}), or rename that one to come later"
        )

    def _uses_own(self, netdev: str) -> bool:
        own = self.own_file(netdev)
        return self.file_in_use(netdev) == own or not (
            self.machine.exists(own) and self._index(netdev)
        )

    def _is_settled(self, netdev: str) -> bool:
        state = self._state(netdev, "ADMIN_STATE")
        return state in ("", "configured", "unmanaged", "failed")

    def _require_no_other(self, netdev: str, wanted: Addressing) -> None:
        """Refuse an admin's file that gives the rail another address."""
        path = self.file_in_use(netdev)
        for address in re.findall(r"(?m)^\s*Address\s*=\s*(\S+)", self.machine.read(path) or ""):
            if wanted.address and not _is_same(address, wanted.address):
                raise Refused(
                    f"{netdev}: {path} gives it {address}, expected {wanted.address} "
                    "(fabric_rails). Remove the line Address= there"
                )

    def _require_ipoib(self, rail: Rail) -> None:
        """Refuse a systemd that does not know IPoIB."""
        shown = re.match(r"systemd (\d+)", self.machine.run(["networkctl", "--version"]))
        if shown is None or int(shown[1]) < _HAS_IPOIB:
            raise Refused(
                f"{rail.netdev}: systemd {_HAS_IPOIB} is the first that sets IPoIB's mode or makes "
                f"partitions (networkctl --version: {shown[1] if shown else 'unknown'}). Write "
                "fabric_ipoib_mode: keep without ipoib_pkey, or another fabric_link_manager"
            )

    def _index(self, netdev: str) -> str:
        return self.machine.value(f"/sys/class/net/{netdev}/ifindex") or ""

    def file_in_use(self, netdev: str) -> str:
        """Return the .network file by which it configures a device; empty for none."""
        return self._state(netdev, "NETWORK_FILE")

    def _state(self, netdev: str, key: str) -> str:
        index = self._index(netdev)  # none where the device has just gone
        for line in ((index and self.machine.read(_LINKS + index)) or "").splitlines():
            if line.startswith(key + "="):
                return line.partition("=")[2]
        return ""


def is_read(path: str) -> bool:
    """Return whether systemd-networkd reads such a file; those that end in .link are udev's."""
    return path.startswith(_DIRECTORIES) and path.endswith((".network", _NETDEV))


def match_of(text: str) -> str:
    """Return a file's section [Match], or its name, of a .netdev file."""
    made = re.search(r"(?m)^Name=.*$", text) if "[NetDev]" in text else None
    lines = [made[0]] if made else ["[Match]", *(f"{key}={value}" for key, value in _match(text))]
    return "\n".join([*lines, ""])


def _match(text: str) -> list[tuple[str, str]]:
    """Return the settings of a .network file's sections [Match]."""
    title, found = "", []
    for line in text.replace("\\\n", " ").splitlines():
        key, equals, value = line.strip().partition("=")
        title = key if key.startswith("[") else title
        if equals and title == "[Match]" and not key.startswith(("#", ";")):
            found.append((key.strip(), value.strip()))
    return found


def _words(text: str) -> dict[str, list[str]]:
    """Return what the lines of each key add up to: ! is for its whole line, an empty one resets."""
    found: dict[str, list[str]] = {}
    for key, value in _match(text):
        words = [value[: value.startswith("!")] + word for word in value.lstrip("!").split()]
        found[key] = found.get(key, []) + words if value else []
    return {key: words for key, words in found.items() if words}


def _is_for_one(text: str) -> bool:
    """Return whether a .network file can only match one device."""
    return any(
        len(words) == 1 and re.fullmatch(r"[^*?\[!]+", words[0])
        for key, words in _words(text).items()
        if key in _ONE_DEVICE
    )


def _may_match(text: str, names: dict[str, str]) -> bool:
    """Return whether a .network file may be for a device, by those keys whose values are known."""
    words = _words(text)
    for key, value in names.items():
        if key in words and not _holds(words[key], value, key.endswith("MACAddress")):
            return False
    return bool(words)


def _holds(words: list[str], value: str, is_address: bool) -> bool:
    """Return whether one word of a key is the device's, and no word with ! is."""
    if is_address:
        return _digits(value) in map(_digits, words)
    hits = [each for each in words if fnmatch.fnmatchcase(value, each.lstrip("!"))]
    is_open = all(each.startswith("!") for each in words)
    return bool(hits or is_open) and not any(each.startswith("!") for each in hits)


def _digits(address: str) -> str:
    return re.sub("[:.-]", "", address.lower())


def _is_same(one: str, other: str) -> bool:
    try:
        return ipaddress.ip_interface(one) == ipaddress.ip_interface(other)
    except ValueError:
        return False


def _whole(netdev: str, wanted: Addressing) -> list[str]:
    """Return a .network file.

    A boot does not wait for a rail. Without carrier it keeps its address, for running jobs use
    the GID that comes of it.
    """
    lines = ["[Match]", f"Name={netdev}", "", "[Link]", "RequiredForOnline=no", "", "[Network]"]
    lines += ["LinkLocalAddressing=ipv6", "ConfigureWithoutCarrier=yes"]
    return lines + (["IPv6AcceptRA=no", *_addressing(wanted)] if wanted.address else [])


def _addressing(wanted: Addressing) -> list[str]:
    if not wanted.address:
        return []
    lines = [f"Address={wanted.address}"]
    if not wanted.table:
        return lines
    table = f"Table={wanted.table}"
    if wanted.network:
        lines += ["", "[Route]", f"Destination={wanted.network}", table]
    if wanted.gateway:
        # A router of the other family does not say which family the route is of.
        lines += ["", "[Route]", *(["Destination=0.0.0.0/0"] if wanted.is_mixed else [])]
        lines += [f"Gateway={wanted.gateway}", table]
        lines += ["GatewayOnLink=yes"] if wanted.is_on_link else []
    lines += ["", "[RoutingPolicyRule]", f"From={wanted.host}", table]
    return [*lines, f"Priority={wanted.priority}"]
