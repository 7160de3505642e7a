"""What all link managers have in common: files of ours for a rail, and having them read again."""

from __future__ import annotations

import ipaddress
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from ..machine import Machine
from ..plan import CONFIGURED, RUNNING, Change, Plan, Refused, Step
from ..rails import Rail

HEADER = "# Written by rdmaprov ({role}); changes here are lost.\n"
# A boot reads the files anyway, so what is still to be read need not outlive it.
_UNREAD = "/run/rdmaprov/unread"


@dataclass(frozen=True)
class Addressing:
    """How a rail is reached, and answers."""

    address: str  # with prefix length; empty for a rail that only has to be up
    gateway: str = ""  # the router of its subnet; empty for none
    table: int = 0  # the routing table of what is sent from the address; 0 for none of its own
    priority: int = 0
    ipoib_mode: str = ""  # datagram or connected; empty to leave IPoIB's mode alone

    @property
    def family(self) -> str:
        """Return ip's option for the address's family."""
        return f"-{ipaddress.ip_interface(self.address).version}"

    @property
    def host(self) -> str:
        """Return the address alone."""
        return str(ipaddress.ip_interface(self.address).ip)

    @property
    def network(self) -> str:
        """Return the subnet; empty for a host's own /32 or /128, which has none."""
        network = ipaddress.ip_interface(self.address).network
        return "" if network.prefixlen == network.max_prefixlen else str(network)

    @property
    def is_mixed(self) -> bool:
        """Return whether an IPv6 router is the way out for an IPv4 address (RFC 8950)."""
        return ":" in self.gateway and self.family == "-4"

    @property
    def is_on_link(self) -> bool:
        """Return whether the router must be called reachable: no subnet on the rail holds it.

        A link-local IPv6 router always is.
        """
        if not self.gateway or self.is_mixed:
            return False
        router = ipaddress.ip_address(self.gateway)
        if router in ipaddress.ip_interface(self.address).network:
            return False
        return router.version == 4 or not router.is_link_local

    def require_not_mixed(self, rail: Rail, manager: str) -> None:
        """Raise Refused if the router is of the other family, which the manager does not have."""
        if self.is_mixed:
            raise Refused(
                f"rail {rail.index}: {manager} has no IPv6 router ({self.gateway}) for an IPv4 "
                "address. Write fabric_link_manager: systemd-networkd or ifupdown, or an IPv4 "
                "router"
            )


class LinkManager(ABC):
    """One of the programs that configure links.

    `address` and `mtu` add the steps that give a rail the site's configuration at the next boot;
    `settle` those by which the manager knows it now. None changes anything by itself. A file has
    one owner: methods of different roles write different files.
    """

    name = ""
    # The role fabric's own file for a network device is DIRECTORY/PREFIX<netdev>SUFFIX.
    directory = ""
    # The directory with all that rdmaprov writes for it, where that is not DIRECTORY.
    tree = ""
    prefix = "rdmaprov-"
    suffix = ""
    mode = 0o644
    # What its reading the files again does to the devices that they are for; empty for nothing.
    reading_interrupts = ""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._unread: list[str] = []

    @staticmethod
    @abstractmethod
    def runs(machine: Machine) -> bool:
        """Return whether the manager runs on the node."""

    @abstractmethod
    def has(self, netdev: str) -> bool:
        """Return whether the manager configures a device now."""

    @abstractmethod
    def address(self, plan: Plan, rail: Rail, wanted: Addressing) -> None:
        """Have the rail come up with its address, routes and rule at boot. For the role fabric."""

    @abstractmethod
    def mtu(self, plan: Plan, rail: Rail, mtu_bytes: int) -> None:
        """Have the rail's network device get its MTU at boot. For the role mtu."""

    @abstractmethod
    def read_again(self, netdevs: list[str]) -> list[list[str]]:
        """Return the commands after which the manager goes by the files of these devices."""

    def check(self, netdevs: list[str]) -> None:  # noqa: B027 (only some can tell)
        """Raise NodeError if the manager does not go by the files of these devices."""

    def could_have(self, netdev: str) -> bool:  # noqa: ARG002
        """Return whether it would configure this device if it had a file for it."""
        return True

    def require_kept(self, netdev: str) -> None:  # noqa: B027 (only some lose it)
        """Raise Refused if a device on the management path would lose what an admin gave it."""

    def own_file(self, netdev: str) -> str:
        """Return the file that rdmaprov writes for a device."""
        return f"{self.directory}/{self.prefix}{netdev}{self.suffix}"

    def fabric_file(self, netdev: str) -> str:
        """Return the file in which the role fabric has a device's address."""
        return self.own_file(netdev)

    def own_addresses(self, netdev: str) -> list[str]:
        """Return the addresses that the role fabric gave a device, by its file, as ip has them."""
        text = self.machine.read(self.fabric_file(netdev)) or ""
        found = re.findall(r"(?<![\w.:])[0-9a-fA-F.:]+/\d+", text)
        return [str(ipaddress.ip_interface(each)) for each in found]

    def leftovers(self, plan: Plan, rails: list[Rail]) -> None:
        """Have no files of ours for devices that are no rails any more."""
        wanted = {netdev for rail in rails for netdev in (rail.netdev, rail.port)}
        for name in self.machine.names(self.directory):
            if name.startswith(self.prefix) and name.endswith(self.suffix):
                netdev = name[len(self.prefix) : len(name) - len(self.suffix)]
                if netdev not in wanted:
                    self.unread(plan, netdev)
                    plan.absent(f"{self.directory}/{name}")

    def settle(self, plan: Plan) -> None:
        """Have the manager read what was written, by this run or by one that was cut."""
        left = [name for name in self.machine.names(self._marks()) if name not in self._unread]
        for netdev in left:
            change = Change(RUNNING, netdev, self.name, "files not read again", "files in force")
            plan.add(change, lambda: None)
        netdevs = self._unread + left
        if not netdevs:
            return
        for netdev in self.interrupted(netdevs) if self.reading_interrupts else ():
            plan.interrupt(f"{netdev} {self.name}", self.reading_interrupts, "for about 1 s")
        self.plan_reading(plan, netdevs)
        plan.steps.append(Step(None, lambda: self._read(netdevs)))

    def interrupted(self, netdevs: list[str]) -> list[str]:
        """Return the devices whose traffic stops when the manager reads their files again."""
        return netdevs

    def plan_reading(self, plan: Plan, netdevs: list[str]) -> None:
        """Have the manager go by the files of these devices."""
        for argv in self.read_again(netdevs):
            plan.then(argv)

    def unread(self, plan: Plan, netdev: str) -> None:
        """Leave a mark that files of this device change: it stands if the run is cut after that."""
        if netdev not in self._unread:
            self._unread.append(netdev)
            plan.steps.append(
                Step(None, lambda: self.machine.write(f"{self._marks()}/{netdev}", ""))
            )

    def plan_file(
        self, plan: Plan, rail: Rail, setting: str, wanted: str, path: str, text: str
    ) -> None:
        """Have a file of the rail's."""
        if self.machine.stands(path, text, self.mode):
            return
        self.unread(plan, rail.netdev)
        seen = "none" if self.machine.read(path) is None else "another"
        change = Change(CONFIGURED, rail.netdev, setting, seen, wanted)
        plan.file(path, text, self.mode, change)

    def plan_address(
        self, plan: Plan, rail: Rail, wanted: Addressing, path: str, lines: Iterable[str]
    ) -> None:
        """Have a file with the rail's address."""
        text = HEADER.format(role="fabric") + "\n".join(lines) + "\n"
        self.plan_file(plan, rail, "address", wanted.address or "up without one", path, text)

    def plan_mtu(
        self, plan: Plan, rail: Rail, mtu_bytes: int, path: str, lines: Iterable[str]
    ) -> None:
        """Have a file with the rail's MTU."""
        text = HEADER.format(role="mtu") + "\n".join(lines) + "\n"
        self.plan_file(plan, rail, "MTU", str(mtu_bytes), path, text)

    def _marks(self) -> str:
        return f"{_UNREAD}/{self.name}"

    def _read(self, netdevs: list[str]) -> None:
        self.check(netdevs)
        for netdev in netdevs:
            self.machine.remove(f"{self._marks()}/{netdev}")
