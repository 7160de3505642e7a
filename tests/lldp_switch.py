"""A switch's announcements by LLDP, and what sends them from a machine without a daemon."""

from tests.tables import cases
from tests.validate.switches import APPLICATIONS, ETS, PFC

# TLVs of a switch with lossless RoCE: IEEE 802.1Q subtypes 9, 11, 12; 802.3 subtype 4, 9216 bytes.
RIGHT = {"ets": ETS, "pfc": PFC, "applications": APPLICATIONS, "frame": "24,00"}
_SUBTYPES = {
    "ets": (b"\x00\x80\xc2", 9),
    "pfc": (b"\x00\x80\xc2", 11),
    "applications": (b"\x00\x80\xc2", 12),
    "frame": (b"\x00\x12\x0f", 4),
}
_GROUP_SENDER_TYPE = bytes.fromhex("0180c200000e02000000000188cc")
# Sends each frame at its port each second: python3 -c SEND SECONDS [NETDEV FRAME]...
SEND = cases(__file__, "send")


def framed(unit: bytes) -> str:
    """Return the digits of a frame to the nearest bridge with this unit, whatever it is."""
    return (_GROUP_SENDER_TYPE + unit).hex()


def frame(system: str, port: str, **tlvs: str) -> str:
    """Return the digits of a switch's frame; `tlvs` stand in the place of those of RIGHT."""
    parts = [
        (1, b"\x07" + system.encode()),
        (2, b"\x05" + port.encode()),
        (3, (120).to_bytes(2, "big")),
        (5, system.encode()),
        (7, b"\x00\x14\x00\x04"),  # a bridge and router, of which the bridge is on
    ]
    for name, value in {**RIGHT, **tlvs}.items():
        organization, subtype = _SUBTYPES[name]
        parts.append((127, organization + bytes([subtype]) + bytes.fromhex(value.replace(",", ""))))
    unit = b"".join((kind << 9 | len(value)).to_bytes(2, "big") + value for kind, value in parts)
    return framed(unit + b"\0\0")
