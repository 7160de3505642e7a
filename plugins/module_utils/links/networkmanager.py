"""NetworkManager: a profile of ours for each rail, and a default of ours for its MTU."""

from __future__ import annotations

import re
import uuid

from ..machine import CommandFailed, Machine, NodeError
from ..netdevs import kind_of
from ..plan import NotYet, Plan, Refused
from ..rails import Rail
from .manager import Addressing, LinkManager

PROFILES = "/etc/NetworkManager/system-connections"
DEFAULTS = "/etc/NetworkManager/conf.d"
# Fixed, so that a profile has the same identity on each run; made for this and nothing else.
_NAMESPACE = uuid.UUID("5b6f6a6e-8f0e-4b52-9d0f-2b9f4a1f7c11")


class NetworkManager(LinkManager):
    """The links of a node that NetworkManager manages."""

    name = "NetworkManager"
    directory = PROFILES
    tree = "/etc/NetworkManager"
    prefix = "rdmaprov-"
    suffix = ".nmconnection"
    mode = 0o600  # it ignores a profile that others may read
    reading_interrupts = "its addresses are removed and added again"

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._addressed: list[str] = []
        self.is_stopped = False  # as nmcli said when it was asked for a device

    @staticmethod
    def runs(machine: Machine) -> bool:
        """Return whether NetworkManager runs on the node."""
        return machine.has("nmcli") and machine.exists("/run/NetworkManager")

    def has(self, netdev: str) -> bool:
        """Return whether it manages this device, and does not only watch another who does."""
        return self.could_have(netdev) and "externally" not in self._state(netdev)

    def could_have(self, netdev: str) -> bool:
        """Return whether it manages this device or would with a profile for it."""
        return self._state(netdev) not in ("", "10 (unmanaged)")

    def address(self, plan: Plan, rail: Rail, wanted: Addressing) -> None:
        """Have the rail come up with its address, routes and rule at boot."""
        wanted.require_not_mixed(rail, self.name)
        if kind_of(self.machine, rail.netdev) in _MADE:
            self._require_in_profile(rail.netdev, wanted)
            return
        kind = self._kind(rail.port)
        partition = [f"p-key={rail.pkey}", f"parent={rail.parent}"] if rail.parent else []
        mode = f"transport-mode={wanted.ipoib_mode or 'datagram'}"
        self._addressed.append(rail.netdev)
        lines = [
            "[connection]",
            f"id=rdmaprov-{rail.netdev}",
            f"uuid={uuid.uuid5(_NAMESPACE, rail.netdev)}",
            f"type={kind}",
            f"interface-name={rail.netdev}",
            "autoconnect-priority=999",  # before any profile of an admin's
            "",
            f"[{kind}]",
            *([mode, *partition] if kind == "infiniband" else []),
            "",
            *_families(wanted),
        ]
        self.plan_address(plan, rail, wanted, self.own_file(rail.netdev), lines)

    def mtu(self, plan: Plan, rail: Rail, mtu_bytes: int) -> None:
        """Have the rail's network device get its MTU at boot.

        As the default of what its profile, whosever it is, leaves open (NetworkManager.conf(5),
        section [connection]).
        """
        self._require_mtu_open(rail, mtu_bytes)
        path = f"{DEFAULTS}/90-rdmaprov-mtu-{rail.netdev}.conf"
        lines = [
            f"[connection-rdmaprov-mtu-{rail.netdev}]",
            f"match-device=interface-name:={rail.netdev}",
            f"{self._kind(rail.port)}.mtu={mtu_bytes}",
        ]
        self.plan_mtu(plan, rail, mtu_bytes, path, lines)

    def read_again(self, netdevs: list[str]) -> list[list[str]]:
        """Return the commands by which it reads its files, and uses the rails' own profiles.

        Not `device connect`: that continues with a profile that it is just trying.
        """
        commands = [["nmcli", "general", "reload", "conf"], ["nmcli", "connection", "reload"]]
        ours = self.interrupted(netdevs)
        up = ["nmcli", "--wait", "60", "connection", "up", "id"]
        return commands + [[*up, f"rdmaprov-{each}", "ifname", each] for each in ours]

    def interrupted(self, netdevs: list[str]) -> list[str]:
        """Return the devices whose own profile it starts."""
        return [each for each in netdevs if each in self._addressed]

    def check(self, netdevs: list[str]) -> None:
        """Raise NodeError if it does not use our own profile of one of these devices."""
        for netdev in netdevs:
            if not self.machine.exists(self.own_file(netdev)):
                continue
            seen = self._profile(netdev)
            if seen != f"rdmaprov-{netdev}":
                raise NodeError(
                    f"{netdev}: NetworkManager uses the profile '{seen}', expected "
                    f"rdmaprov-{netdev} ({self.own_file(netdev)}). "
                    f"Run on the node: nmcli connection up rdmaprov-{netdev}"
                )

    def require_kept(self, netdev: str) -> None:
        """Raise Refused if our profile would take the place of one that carries the way."""
        seen = self._profile(netdev)
        if kind_of(self.machine, netdev) in _MADE:
            return  # it keeps the admin's
        if seen not in ("", f"rdmaprov-{netdev}"):
            raise Refused(
                f"{netdev}: NetworkManager's profile '{seen}' has the management path, and the "
                "rail's would replace it without the gateway (nmcli device). "
                "Move the management path to another device"
            )

    def _state(self, netdev: str) -> str:
        try:
            argv = ["nmcli", "-g", "GENERAL.STATE", "device", "show", netdev]
            return self.machine.run(argv).strip()
        except CommandFailed as error:
            self.is_stopped = error.code == _NOT_RUNNING
            if self.is_stopped or error.code == _NO_DEVICE:
                return ""
            raise

    def _profile(self, netdev: str) -> str:
        argv = ["nmcli", "-g", "GENERAL.CONNECTION", "device", "show", netdev]
        return self.machine.run(argv).strip()

    def _require_in_profile(self, netdev: str, wanted: Addressing) -> None:
        """Refuse a bond or VLAN whose profile lacks the rail's address, its routes or its rule.

        A profile of ours would replace the admin's, which has the bond's options and ports, or the
        VLAN's parent, number and priorities: NetworkManager reads no file beside it.
        """
        profile = self._profile(netdev)
        if not profile:
            raise NotYet(
                f"{netdev}: NetworkManager uses no profile for it, and rdmaprov makes no bond or "
                "VLAN. Run on the node: nmcli device status"
            )
        lacking = [
            f"{name} '{value}'"
            for name, value, pattern in _properties(wanted)
            if not re.search(pattern, self._property(profile, name))
        ]
        if lacking:
            kind = kind_of(self.machine, netdev)
            raise Refused(
                f"{netdev}: NetworkManager's profile '{profile}' makes this {kind}, so rdmaprov "
                f"does not replace it, and it lacks {' and '.join(lacking)}. Run on the node: "
                f"nmcli connection modify '{profile}' {' '.join(lacking)}; "
                f"nmcli connection up '{profile}'"
            )

    def _require_mtu_open(self, rail: Rail, mtu_bytes: int) -> None:
        """Refuse another MTU in a profile; a port's may go with the role fabric's own."""
        netdev, profile = rail.netdev, self._profile(rail.netdev)
        if not profile or profile == f"rdmaprov-{netdev}":
            return
        # A bond and a VLAN have Ethernet's, too.
        name = "infiniband.mtu" if self._kind(rail.port) == "infiniband" else "802-3-ethernet.mtu"
        seen = self._property(profile, name).strip()
        if seen not in ("", "0", "auto", str(mtu_bytes)):
            kind = kind_of(self.machine, netdev)
            makes = f"makes this {kind} and " if kind in _MADE else ""
            raise (Refused if makes else NotYet)(
                f"{netdev}: NetworkManager's profile '{profile}' {makes}sets MTU {seen}, expected "
                f"{mtu_bytes} (fabric_mtu_bytes). Run on the node: "
                f"nmcli connection modify '{profile}' {name} {mtu_bytes}; "
                f"nmcli connection up '{profile}'"
            )

    def _property(self, profile: str, name: str) -> str:
        # -e no: the colons of IPv6 as they are
        argv = ["nmcli", "-e", "no", "-g", name, "connection", "show", "id", profile]
        return self.machine.run(argv)

    def _kind(self, netdev: str) -> str:
        # A bond's and a VLAN's default MTU is ethernet.mtu, too [NetworkManager.conf(5)].
        # Linux include/uapi/linux/if_arp.h: ARPHRD_INFINIBAND
        found = self.machine.value(f"/sys/class/net/{netdev}/type")
        return "infiniband" if found == "32" else "ethernet"


# What a profile makes, and does not only configure.
_MADE = ("bond", "vlan")
# Of nmcli(1), exit status.
_NOT_RUNNING, _NO_DEVICE = 8, 10


def _properties(wanted: Addressing) -> list[tuple[str, str, str]]:
    """Return name and value of what a profile needs, and what nmcli then shows of it."""
    if not wanted.address:
        return []
    ip = f"ipv{wanted.family[1]}"
    found = [(f"{ip}.addresses", wanted.address, rf"(?<![\d.:]){re.escape(wanted.address)}\b")]
    if wanted.table:
        table = f"table={wanted.table}"
        routes = [f"{wanted.network} {table}"]
        if wanted.gateway:
            every = "0.0.0.0/0" if wanted.family == "-4" else "::/0"
            routes.append(f"{every} {wanted.gateway} {table}")
        found.append((f"{ip}.routes", ", ".join(routes), rf"\b{table}\b"))
        rule = f"priority {wanted.priority} from {wanted.host} table {wanted.table}"
        seen = rf"from {re.escape(wanted.host)}\b.* table {wanted.table}\b"
        found.append((f"{ip}.routing-rules", rule, seen))
    return found


def _families(wanted: Addressing) -> list[str]:
    if not wanted.address:
        return ["[ipv4]", "method=disabled", "", "[ipv6]", "method=link-local"]
    if wanted.family == "-4":
        return ["[ipv4]", *_manual(wanted), "", "[ipv6]", "method=link-local"]
    return ["[ipv4]", "method=disabled", "", "[ipv6]", *_manual(wanted)]


def _manual(wanted: Addressing) -> list[str]:
    lines = ["method=manual", f"address1={wanted.address}", "never-default=true"]
    if not wanted.table:
        return lines
    options = f"table={wanted.table}"
    routes = [(wanted.network, options)] if wanted.network else []
    if wanted.gateway:
        every = "0.0.0.0/0" if wanted.family == "-4" else "::/0"
        on_link = ",onlink=true" if wanted.is_on_link else ""
        routes.append((f"{every},{wanted.gateway}", options + on_link))
    for number, (route, with_) in enumerate(routes, 1):
        lines += [f"route{number}={route}", f"route{number}_options={with_}"]
    rule = f"priority {wanted.priority} from {wanted.host} table {wanted.table}"
    return [*lines, f"routing-rule1={rule}"]
