"""What the quality of service of a port is, as either tool reads and sets it. Runs on the node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..machine import CommandFailed, Machine, NodeError


@dataclass(frozen=True)
class Seen:
    """What a port's DCB is."""

    host: bool  # the host decides, not the firmware by DCBX
    # the DSCP map's entries, DSCP and priority. There is one only where the port trusts DSCP: mlx5
    # (en_dcbnl.c) has no other sign of it.
    entries: tuple[tuple[int, int], ...]
    pfc: tuple[bool, ...]
    cable_length_m: int  # from which the firmware derives when to send a pause
    tsa: tuple[str, ...]  # how each traffic class is served: strict, ets, vendor
    percent: tuple[int, ...]  # each class's share; of no meaning where it is not served by ets
    classes: tuple[int, ...]
    priority_buffer: tuple[int, ...] | None  # receive buffers; None if the port does not show them
    buffer_bytes: tuple[int, ...] | None

    @property
    def trust(self) -> str:
        """Return what the port reads a packet's priority from."""
        return "dscp" if self.entries else "pcp"


class Backend(Protocol):
    """A tool that reads and sets DCB. What sets returns the tool's command lines."""

    def read(self, netdev: str) -> Seen | None:
        """Return what a port is, None if it has no DCB; raise NodeError if it is unknown."""

    def control(self, netdev: str, host: bool) -> list[list[str]]:
        """Have the host decide, or the firmware; raise Refused if this tool cannot."""

    def trust(self, netdev: str, seen: Seen, entries: list[tuple[int, int]]) -> list[list[str]]:
        """Have these entries in the map beside others; with none, trust PCP."""

    def pfc(self, netdev: str, pfc: tuple[bool, ...], cable_length_m: int) -> list[list[str]]:
        """Have PFC on these priorities alone, for this length of cable."""

    def ets(
        self, netdev: str, tsa: tuple[str, ...], percent: tuple[int, ...], classes: tuple[int, ...]
    ) -> list[list[str]]:
        """Have classes served like this."""

    def buffers(
        self, netdev: str, priority_buffer: tuple[int, ...], buffer_bytes: tuple[int, ...]
    ) -> list[list[str]]:
        """Have receive buffers like this."""


def eight(values: list[int], what: str) -> tuple[int, ...]:
    """Return values of which there is one for each priority or class; raise NodeError for fewer."""
    if len(values) < 8:
        raise NodeError(f"{what}: {len(values)} values, expected 8")
    return tuple(values[:8])


def attempt(machine: Machine, commands: list[list[str]]) -> CommandFailed | None:
    """Run commands whose effect is read afterwards; return the last failure."""
    failed = None
    for argv in commands:
        try:
            machine.run(argv)
        except CommandFailed as error:
            failed = error
    return failed


_NET = "/sys/class/net/"
# Linux include/uapi/linux/if_arp.h
_ARPHRD_INFINIBAND = "32"


def without_dcb(machine: Machine, netdev: str) -> str:
    """Return why a port cannot have DCB, empty if it could.

    mlx5 gives DCB to the function that owns the port alone (en_dcbnl.c, vport_group_manager).
    """
    if machine.value(f"{_NET}{netdev}/type") == _ARPHRD_INFINIBAND:
        return "its link layer is InfiniBand"
    if machine.exists(f"{_NET}{netdev}/device/physfn"):
        return "it is a virtual function, whose port belongs to the physical one"
    if ".sf." in machine.real(f"{_NET}{netdev}/device"):
        return "it is a subfunction, whose port belongs to the physical one"
    return ""
