"""What LLDP daemons print of a node's neighbours: lldpd's lldpctl, and lldpad's lldptool.

lldpd keeps DCBX TLVs as unknown ones, with their bytes, since 1.0.15 (its NEWS, #536); earlier ones
drop them. lldptool prints whole units in its client's messages (openlldp, lldptool.c and
lldp_mand_clif.c). So both give the bytes to `lldp_unit`, which checks them.
"""

import re
from collections.abc import Iterator
from typing import Any

from rdmaprov.boundary import OddAnswer, parse_answer
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.lldp_dcbx import OddUnit
from rdmaprov.facts.lldp_unit import (
    LldpNeighbor,
    OrganizationTlv,
    organization_fields,
    parse_unit,
    text,
)
from rdmaprov.facts.memo import remember

# lldptool: R, status 00, C, version, command, operation, length and name of the port, TLV 127 for
# all; then the unit.
_MESSAGE = re.compile(r"R00C\d[0-9a-f]{2}[0-9a-f]{8}([0-9a-f]{2})(.*)")
_ALL_TLVS = "0000007f"
_FORWARDING = ("Bridge", "Router")
_NETDEV = re.compile(r"[^\s/]{1,15}")

Neighbors = dict[str, list[LldpNeighbor | OddUnit]]


@remember
def parse_lldpd(stdout: str, command: str) -> Neighbors:
    """Return the neighbours by port that `lldpctl -f json0` printed."""
    try:
        document = parse_answer(stdout, lambda _: None)
        found: Neighbors = {}
        for top in _items(document, "lldp"):
            for entry in _items(top, "interface"):
                if _word(entry, "via") == "LLDP":
                    found.setdefault(_netdev(entry), []).append(_of_lldpd(entry))
    except (OddAnswer, OddUnit) as error:
        raise CouldNotTell(f"{command}: {error}") from error
    return found


def _of_lldpd(entry: dict[str, Any]) -> LldpNeighbor | OddUnit:
    try:
        chassis, port = _first(entry, "chassis"), _first(entry, "port")
        frame = _value(port, "mfs")
        known = {
            "chassis": _value(chassis, "id"),
            "port": _value(port, "id"),
            "ttl_s": _number(_value(port, "ttl") or _value(chassis, "ttl")),
            "port_description": _value(port, "descr"),
            "system": _value(chassis, "name"),
            "forwards": _forwards(chassis),
            "max_frame_bytes": _number(frame) if frame else None,
        }
        return LldpNeighbor(**{**known, **organization_fields(_unknown_tlvs(entry))})
    except OddUnit as error:
        return error


def _forwards(chassis: dict[str, Any]) -> bool | None:
    shown = [each for each in _items(chassis, "capability") if each.get("type") in _FORWARDING]
    return any(each.get("enabled") is True for each in shown) if shown else None


def _unknown_tlvs(entry: dict[str, Any]) -> Iterator[OrganizationTlv]:
    for block in _items(entry, "unknown-tlvs"):
        for tlv in _items(block, "unknown-tlv"):
            subtype = _number(_word(tlv, "subtype"))
            yield _bytes(_word(tlv, "oui")), subtype, _bytes(str(tlv.get("value") or ""))


def _bytes(written: str) -> bytes:
    """Return the bytes that are written as 00,80,C2."""
    try:
        return bytes.fromhex(written.replace(",", ""))
    except ValueError as error:
        raise OddUnit(f"{written[:40]!r} is not bytes") from error


def _items(holder: object, key: str) -> list[dict[str, Any]]:
    """Return the list of objects under a key, empty if the key is absent."""
    value = holder.get(key, []) if isinstance(holder, dict) else None
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise OddUnit(f"there is no list under {key!r}")
    return value


def _first(holder: dict[str, Any], key: str) -> dict[str, Any]:
    items = _items(holder, key)
    if not items:
        raise OddUnit(f"there is no {key!r}")
    return items[0]


def _value(holder: dict[str, Any], key: str) -> str:
    items = _items(holder, key)
    return _text(items[0].get("value")) if items else ""


def _word(holder: dict[str, Any], key: str) -> str:
    value = holder.get(key)
    if not isinstance(value, str):
        raise OddUnit(f"there is no text under {key!r}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise OddUnit("a value is no text")
    return text(value.encode("utf-8", "surrogatepass"))


def _number(written: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", written):
        raise OddUnit(f"{written[:40]!r} is no number")
    return int(written)


def _netdev(entry: dict[str, Any]) -> str:
    name = _word(entry, "name")
    if not _NETDEV.fullmatch(name):
        raise OddUnit(f"{name[:40]!r} is no network device")
    return name


def parse_lldpad(stdout: str) -> Neighbors:
    """Return the neighbours by port of what `lldptool -t -n -R -i PORT` printed for each port."""
    found: Neighbors = {}
    for line in stdout.splitlines():
        message = _MESSAGE.fullmatch(line)
        if message is None:
            continue
        length, rest = int(message[1], 16), message[2]
        name, unit = rest[:length], rest[length:]
        if not unit.startswith(_ALL_TLVS) or not _NETDEV.fullmatch(name):
            continue
        try:
            octets = bytes.fromhex(unit[len(_ALL_TLVS) :])
            if octets:
                found.setdefault(name, []).append(parse_unit(octets, needs_end=False))
        except OddUnit as error:
            found.setdefault(name, []).append(error)
        except ValueError:
            found.setdefault(name, []).append(OddUnit("its bytes are no hexadecimal digits"))
    return found
