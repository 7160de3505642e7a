"""An LLDP data unit, parsed: who the neighbour is, and what it announces of QoS and frames.

A unit is data from a stranger: every length is checked. A unit that does not fit is odd as a whole;
a TLV of an organization that does not fit is unknown by itself.

Sources: IEEE 802.1AB-2016, clauses 8 and 9; IEEE 802.1Q-2018, annex D.2 (ETS, PFC and application
priorities); IEEE 802.3-2018, 79.3 (frame size).
"""

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rdmaprov.facts import lldp_dcbx
from rdmaprov.facts.lldp_dcbx import AnnouncedApplication, AnnouncedEts, AnnouncedPfc, OddUnit
from rdmaprov.problem import printable

_ETHERTYPE = b"\x88\xcc"
_HEADER_BYTES = 14
_MOST_TEXT = 255
_END, _CHASSIS, _PORT, _TTL, _PORT_TEXT, _SYSTEM, _, _CAPABILITIES = range(8)
_ORGANIZATION = 127
_MAC_SUBTYPE = {_CHASSIS: 4, _PORT: 3}
_NETWORK_SUBTYPE = {_CHASSIS: 5, _PORT: 4}
# IEEE 802.1AB, table 8-4: bridge and router.
_FORWARDS = 1 << 2 | 1 << 4
_IANA_BYTES = {1: 4, 2: 16}  # IANA address family numbers: IPv4, IPv6
_8021, _8023, _CEE = b"\x00\x80\xc2", b"\x00\x12\x0f", b"\x00\x1b\x21"

OrganizationTlv = tuple[bytes, int, bytes]


@dataclass(frozen=True)
class LldpNeighbor:
    """What one neighbour announces; None and empty stand for what it does not announce."""

    chassis: str  # its chassis ID: a MAC address, an IP address or a name
    port: str
    ttl_s: int  # how long the unit is valid; 0 is a farewell
    port_description: str = ""
    system: str = ""
    forwards: bool | None = None  # whether it is a bridge or a router
    max_frame_bytes: int | None = None  # the largest frame that its port takes
    pfc: AnnouncedPfc | None = None
    ets: AnnouncedEts | None = None  # how it serves traffic classes
    applications: tuple[AnnouncedApplication, ...] | None = None
    # whether it speaks DCBX as of before IEEE 802.1Qaz, which is not judged
    speaks_cee: bool = False
    # of its organizations' TLVs, what is unknown and why: one does not spoil the others
    odd: tuple[tuple[str, str], ...] = ()

    @property
    def switch(self) -> str:
        """Return its name; its chassis ID if it has none."""
        return self.system or self.chassis

    @property
    def label(self) -> str:
        """Return the switch and its port, as a message has them."""
        text = self.port_description
        return f"{self.switch} {self.port}" + (f" ({text})" if text not in ("", self.port) else "")


def parse_frame(frame: bytes) -> LldpNeighbor:
    """Return what an untagged Ethernet frame with an LLDP data unit says.

    Raises:
        OddUnit: it is not such a frame, or a part of it is wrong.
    """
    if frame[_HEADER_BYTES - 2 : _HEADER_BYTES] != _ETHERTYPE:
        raise OddUnit("the frame is no LLDP frame")
    return parse_unit(frame[_HEADER_BYTES:])


def parse_unit(unit: bytes, *, needs_end: bool = True) -> LldpNeighbor:
    """Return what an LLDP data unit says; what follows its end is padding.

    Args:
        needs_end: whether a unit without the TLV that ends it is cut.

    Raises:
        OddUnit: a part of it is wrong.
    """
    tlvs = list(_tlvs(unit, needs_end=needs_end))
    if [kind for kind, _ in tlvs[:3]] != [_CHASSIS, _PORT, _TTL]:
        raise OddUnit("it does not begin with chassis, port and time to live")
    basic: dict[str, Any] = {}
    organizations: list[OrganizationTlv] = []
    for kind, value in tlvs:
        if kind == _ORGANIZATION:
            if len(value) < 4:
                raise OddUnit("a TLV of an organization is too short")
            organizations.append((value[:3], value[3], value[4:]))
        elif (name := _NAMES.get(kind)) is not None:
            if name in basic:
                raise OddUnit(f"its {name} stands twice")
            basic[name] = _basic(kind, value)
    return LldpNeighbor(**basic, **organization_fields(organizations))


_NAMES = {
    _CHASSIS: "chassis",
    _PORT: "port",
    _TTL: "ttl_s",
    _PORT_TEXT: "port_description",
    _SYSTEM: "system",
    _CAPABILITIES: "forwards",
}


def _tlvs(unit: bytes, *, needs_end: bool) -> Iterator[tuple[int, bytes]]:
    """Yield each TLV's type and value up to the end."""
    at = 0
    while at < len(unit):
        if at + 2 > len(unit):
            raise OddUnit("it is cut")
        head = int.from_bytes(unit[at : at + 2], "big")
        kind, length = head >> 9, head & 0x1FF
        value = unit[at + 2 : at + 2 + length]
        if len(value) < length:
            raise OddUnit("it is cut")
        if kind == _END:
            if length:
                raise OddUnit("its end has a value")
            return
        yield kind, value
        at += 2 + length
    if needs_end:
        raise OddUnit("it is cut: it has no end")


def _basic(kind: int, value: bytes) -> object:
    if kind in (_CHASSIS, _PORT):
        return _identity(kind, value)
    if kind == _TTL:
        return lldp_dcbx.number(value[:2], 2)
    if kind == _CAPABILITIES:
        if len(value) != 4:
            raise OddUnit(f"its capabilities have {len(value)} bytes, not 4")
        return bool(int.from_bytes(value[2:], "big") & _FORWARDS)
    return text(value)


def _identity(kind: int, value: bytes) -> str:
    """Return a chassis or port ID as text."""
    if not 2 <= len(value) <= 1 + _MOST_TEXT:
        raise OddUnit(f"an ID has {len(value)} bytes")
    subtype, identity = value[0], value[1:]
    if subtype == _MAC_SUBTYPE[kind]:
        if len(identity) != 6:
            raise OddUnit(f"a MAC address has {len(identity)} bytes, not 6")
        return identity.hex(":")
    if subtype == _NETWORK_SUBTYPE[kind]:
        return _network_address(identity) or identity.hex(":")
    return text(identity)


def _network_address(value: bytes) -> str:
    """Return an address behind its family; empty for a family other than IP."""
    if len(value) - 1 != _IANA_BYTES.get(value[0]):
        return ""
    return str(ipaddress.ip_address(value[1:]))


def text(value: bytes) -> str:
    """Return text on one line; some switches end it with NUL."""
    if len(value) > _MOST_TEXT:
        raise OddUnit(f"a text has {len(value)} bytes")
    return printable(value.rstrip(b"\0").decode("utf-8", "backslashreplace").strip())


def organization_fields(tlvs: Iterable[OrganizationTlv]) -> Mapping[str, Any]:
    """Return the arguments of LldpNeighbor that organizations' TLVs give.

    One that has another length than its standard says, or stands twice, is odd.
    """
    found: dict[str, Any] = {}
    odd: dict[str, str] = {}
    seen = set()
    for oui, subtype, value in tlvs:
        key = oui, subtype
        if oui == _CEE:
            found["speaks_cee"] = True
        if key not in _ORGANIZATIONS:
            continue
        name, what, parse = _ORGANIZATIONS[key]
        if key in seen:
            odd[what] = "it stands twice"
            continue
        seen.add(key)
        try:
            found[name] = parse(value)
        except OddUnit as error:
            odd[what] = str(error)
    return {**found, "odd": tuple(odd.items())}


PFC, ETS, APPLICATIONS, FRAME = "PFC", "ETS", "application priorities", "largest frame"
_ORGANIZATIONS: dict[tuple[bytes, int], tuple[str, str, Callable[[bytes], object]]] = {
    (_8021, 9): ("ets", ETS, lldp_dcbx.ets),
    (_8021, 11): ("pfc", PFC, lldp_dcbx.pfc),
    (_8021, 12): ("applications", APPLICATIONS, lldp_dcbx.applications),
    (_8023, 4): ("max_frame_bytes", FRAME, lambda value: lldp_dcbx.number(value, 2)),
}
