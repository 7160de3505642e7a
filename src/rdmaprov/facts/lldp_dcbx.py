"""What organizations' TLVs of LLDP say of QoS: ETS, PFC, application priorities (IEEE DCBX).

Sources: IEEE 802.1Q-2018, D.2.8 to D.2.11; IEEE 802.3-2018, 79.3.4.
"""

from dataclasses import dataclass

# IEEE 802.1Q, table D-9: what the protocol of an application is.
ETHERTYPE, TCP_PORT, UDP_PORT, ANY_PORT, DSCP = 1, 2, 3, 4, 5
_SERVICES = {0: "strict", 1: "credit-based", 2: "ets", 255: "vendor"}
_WILLING = 0x80


class OddUnit(ValueError):
    """An LLDP data unit that does not fit its standards; the message says why."""


@dataclass(frozen=True)
class AnnouncedPfc:
    """PFC of a port."""

    willing: bool
    priorities: tuple[int, ...]  # with PFC on, 0 to 7


@dataclass(frozen=True)
class AnnouncedEts:
    """How a port serves priorities."""

    classes: tuple[int, ...]
    percent: tuple[int, ...]  # the share of each traffic class
    services: tuple[str, ...]  # how each traffic class is served: strict, ets, credit-based, vendor


@dataclass(frozen=True)
class AnnouncedApplication:
    """The priority of an application."""

    priority: int
    selector: int  # what `protocol` is: ETHERTYPE, TCP_PORT, UDP_PORT, ANY_PORT or DSCP
    protocol: int


def number(value: bytes, length: int) -> int:
    """Return a number of a known length."""
    if len(value) != length:
        raise OddUnit(f"it has {len(value)} bytes, not {length}")
    return int.from_bytes(value, "big")


def pfc(value: bytes) -> AnnouncedPfc:
    """Return PFC: willing, MACsec bypass and capability, then a bit for each priority."""
    number(value, 2)
    priorities = tuple(priority for priority in range(8) if value[1] >> priority & 1)
    return AnnouncedPfc(bool(value[0] & _WILLING), priorities)


def ets(value: bytes) -> AnnouncedEts:
    """Return ETS: flags, four bits of class for each priority, shares, services."""
    number(value, 21)
    digits = value[1:5].hex()
    classes = tuple(int(each, 16) for each in digits)
    percent, services = tuple(value[5:13]), tuple(value[13:21])
    if max(percent) > 100:
        raise OddUnit(f"a class has {max(percent)} %")
    return AnnouncedEts(
        classes, percent, tuple(_SERVICES.get(each, "reserved") for each in services)
    )


def applications(value: bytes) -> tuple[AnnouncedApplication, ...]:
    """Return the table of applications: a reserved byte, then three bytes for each."""
    if len(value) % 3 != 1:
        raise OddUnit(f"it has {len(value)} bytes, not 1 and 3 for each")
    return tuple(
        AnnouncedApplication(
            value[at] >> 5, value[at] & 7, int.from_bytes(value[at + 1 : at + 3], "big")
        )
        for at in range(1, len(value), 3)
    )
