"""The neighbour of each of a rail's ports, or the reason why nothing is verified of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from testinfra.host import Host

from rdmaprov.facts import CouldNotTell, devices, firmware, lower_ports, neighbors, rails
from rdmaprov.facts.lldp_unit import LldpNeighbor
from rdmaprov.facts.neighbors import Neighborhood
from rdmaprov.inventory import Node, Rail
from rdmaprov.validate.verdict import Setting, not_applicable

_NVIDIA = "0x15b3"
_T = TypeVar("_T")


@dataclass(frozen=True)
class PortNeighbor:
    """A port of a node, and what the switch at the other end announces."""

    node: Node
    netdev: str
    seen: LldpNeighbor
    around: Neighborhood

    def setting(self, name: str, variable: str, do: str = "correct the switch's port") -> Setting:
        """Return how a value of the switch's is reported."""
        where = self.around.at(self.netdev)
        look = f"{where}, then {do}"
        return Setting(self.node, self.netdev, name, variable, where=where, look=look)

    def announced(self, value: _T | None, what: str) -> _T:
        """Return a value that the switch announces; skip the test if it does not.

        Raises:
            CouldNotTell: what it announces does not fit the standard.
        """
        if why := dict(self.seen.odd).get(what):
            message = f"{self.netdev}: {what} of {self.seen.label} is odd: {why}"
            raise CouldNotTell(message, self.around.at(self.netdev))
        if value is None:
            self.skip(what)
        return value

    def skip(self, what: str) -> NoReturn:
        """Skip the test: the switch does not announce this."""
        why = f"; {self.around.gaps}" if self.around.gaps else ""
        older = ", and speaks DCBX of before IEEE 802.1Qaz" if self.seen.speaks_cee else ""
        not_applicable(f"{self.netdev}: {self.seen.label} announces no {what}{older}{why}")


def of_rail(host: Host, node: Node, rail: Rail) -> Iterator[PortNeighbor]:
    """Yield the neighbours of a rail's ports; skip the test if one has none.

    Raises:
        CouldNotTell: a daemon, the wire or a neighbour's announcement cannot be read.
    """
    here = devices.read(host)
    around = read(host, node)
    for port in lower_ports.ports_of(here, rail):
        seen = around.of(port.netdev)
        if seen is None:
            not_applicable(_why_silent(host, here, port, around))
        yield PortNeighbor(node, port.netdev, seen, around)


def read(host: Host, node: Node) -> Neighborhood:
    """Return a node's neighbours.

    It listens on the wire, which takes as long as switches are silent, only where the site has a
    plan to compare with.
    """
    return neighbors.read(host, listens=any(rail.leaf for rail in node.rails))


def _why_silent(host: Host, here: devices.Devices, port: rails.Port, around: Neighborhood) -> str:
    """Return why nothing is known of a port's neighbour."""
    if not around.source:
        return f"{around.gaps}, and without a plan (fabric_rails, leaf) nothing listens on the wire"
    if here.files.value(f"{devices.NET}/{port.netdev}/carrier") == "0":
        return f"{port.netdev} has no carrier, so no neighbour"
    if _firmware_listens(host, here, port):
        return f"{port.netdev}: the NIC's firmware keeps LLDP to itself (LLDP_NB_RX_MODE)"
    heard = f"{around.source} knows no neighbour"
    if around.source == neighbors.FRAMES:
        heard = f"no neighbour announced itself in {neighbors.LISTEN_S} s"
    return f"{port.netdev}: {heard}: is LLDP on at the switch's port?"


def _firmware_listens(host: Host, here: devices.Devices, port: rails.Port) -> bool:
    """Return whether an NVIDIA NIC's firmware keeps LLDP; no if that cannot be read."""
    if not port.pci or here.files.value(f"{devices.NET}/{port.netdev}/device/vendor") != _NVIDIA:
        return False
    try:
        settings = firmware.read(host, port.pci, ())
    except CouldNotTell:
        return False
    own = settings.get(f"LLDP_NB_RX_MODE_P{int(port.pci[-1]) + 1}")
    own = own or settings.get("LLDP_NB_RX_MODE_P1")
    return own is not None and own.current[-3:] not in ("", "(0)")
