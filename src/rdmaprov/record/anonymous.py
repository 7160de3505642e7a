"""A record whose names and addresses are others, so that each verdict stays the same.

What belongs together stays so: a part of the bits is turned over, the same in each address, so that
a rail's address is still in its gateway's subnet, and a GUID or a link-local address still has the
number of its MAC address. Names and serial numbers are numbered in the order in which they come.
"""

import random
import re
import uuid
from collections.abc import Iterator, Mapping
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Any

from rdmaprov.record.scrub import map_texts

_QUAD = re.compile(r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(/\d{1,2})?(?![\w-]|\.\d)")
# Where four numbers are an address, and no version of a program.
_SAYS_ADDRESS = re.compile(
    r"(?:\b(?:inet|via|src|from|to|local|brd|broadcast|peer|gateway|nameserver|address|addr|server"
    r"|dst|remote|prefsrc|network|default|dev|host)\b\W{0,5}|^|\0)((?:\d{1,3}\.){3}\d{1,3})(?![\d.])",
    re.IGNORECASE | re.MULTILINE,
)
_IPV6 = re.compile(r"(?<![\w:.])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(/\d{1,3})?(?![\w:.])")
_MAC = re.compile(
    r"(?<![\w:.-])(?:[0-9a-fA-F]{2}:){5}(?:(?:[0-9a-fA-F]{2}:){2}|(?:[0-9a-fA-F]{2}:)"
    r"{14})?[0-9a-fA-F]{2}(?![\w:.-])"
)
_IN_NAME = re.compile(
    r"\b(enx|wlx|\w*(?:guid|mac)\W{0,24}(?:0x)?)((?:[0-9a-f]{4})?[0-9a-f]{12})\b", re.IGNORECASE
)
_GUID = re.compile(r"(?<![\w:.])(?:[0-9a-fA-F]{4}:){3}[0-9a-fA-F]{4}(?![\w:.])")
_HEX_GUID = re.compile(r"\b(?:0x)?([0-9a-fA-F]{16})\b")
_UUID = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
# Of a connection of NetworkManager, which a role makes from the name of its device; and of EFI's
# variables, which are the same on each machine.
_KEPT_UUID = re.compile(rf"(?m)(?:^uuid=|/efivars/[^\s/]*-)({_UUID.pattern})")
# Also as ethtool -m, lspci, dmidecode and `devlink dev info`, which has no colon, call it.
_SERIAL = re.compile(
    r"(?i)(\b(?:serial(?:[ _-]?(?:number|no))?|vendor[ _]sn)\b\"?[ \t]*[:=][ \t]*\"?"
    r"|\bserial_number[ \t]+)([A-Za-z0-9][\w.-]{3,63})"
)
_NAME_FILES = ("/proc/sys/kernel/hostname", "/etc/hostname")
# Names of a machine that are words of its texts, too.
_WORDS = {"localhost", "localdomain", "ubuntu", "debian", "rocky", "linux", "node", "nodes", "host"}
_SHORT = 5
_LOW = (1 << 24) - 1


class Pseudonyms:
    """Other names and addresses for those of a record."""

    def __init__(self, document: Mapping[str, Any], chance: random.Random | None = None) -> None:
        chance = chance or random.SystemRandom()
        texts = list(_texts(document))
        lengths = [int(each[1][1:]) for text in texts for each in _QUAD.finditer(text) if each[1]]
        length = min((each for each in lengths if 12 <= each < 24), default=24)
        self._quad = chance.randrange(1, 1 << (length - 8)) << (32 - length)
        self._low = chance.randrange(1, _LOW)
        self._high = chance.randrange(1, 1 << 16) << 80
        self._networks = {
            each[1].rpartition(".")[0]
            for text in texts
            for pattern in (_SAYS_ADDRESS, re.compile(f"({_QUAD.pattern.partition('(/')[0]})/"))
            for each in pattern.finditer(text)
        }
        self._guids = {
            found[0].replace(":", "").lower() for text in texts for found in _GUID.finditer(text)
        }
        self._kept = {found[1] for text in texts for found in _KEPT_UUID.finditer(text)}
        self._numbered: dict[str, str] = {}
        # Also in rows without names, and at the beginning of words, as [VU] of a VPD; some 50.
        serials = {each[2] for text in texts for each in _SERIAL.finditer(text)}
        some = sorted(filter(re.compile(r"(?=.*\d).{8}").match, serials), key=len)[-128:]
        self._serials = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, some[::-1])) or '(?!)'})")
        self._uuids: dict[str, str] = {}
        self._chance = chance
        self._names = _name_pattern(_names(document), self._numbered)

    def data(self, data: Any) -> Any:  # noqa: ANN401 - JSON
        """Return plain data with the other names and addresses, its keys included."""
        return map_texts(data, self.text)

    def text(self, text: str) -> str:
        """Return a text with the other names and addresses."""
        text = _UUID.sub(self._other_uuid, text)
        text = _MAC.sub(lambda found: self._colons(found[0], 2), text)
        text = _GUID.sub(lambda found: self._colons(found[0], 4), text)
        text = _IPV6.sub(self._other_ipv6, text)
        text = _QUAD.sub(self._other_ipv4, text)
        text = _IN_NAME.sub(lambda found: found[1] + self._hex(found[2]), text)
        text = _HEX_GUID.sub(self._other_guid, text)
        text = _SERIAL.sub(lambda found: found[1] + self._serial(found[2]), text)
        text = self._serials.sub(lambda found: self._serial(found[0]), text)
        if self._names is not None:
            text = self._names.sub(lambda found: self._numbered[found[0]], text)
        return text

    def _serial(self, serial: str) -> str:
        return self._numbered.setdefault(serial, f"SERIAL{len(self._numbered) + 1:04}")

    def _other_uuid(self, found: re.Match[str]) -> str:
        if found[0] in self._kept:
            return found[0]
        return self._uuids.setdefault(found[0], str(uuid.UUID(int=self._chance.getrandbits(128))))

    def _hex(self, digits: str) -> str:
        """Return a number with its low bits turned, in as many digits."""
        value = int(digits, 16)
        if value in (0, (1 << 4 * len(digits)) - 1):
            return digits
        turned = f"{value ^ self._low:0{len(digits)}x}"
        return turned.upper() if digits.upper() == digits else turned

    def _colons(self, text: str, each: int) -> str:
        if text.lower().startswith("00:ff:ff:ff:ff"):  # IPoIB's broadcast address
            return text
        digits = self._hex(text.replace(":", ""))
        return ":".join(digits[at : at + each] for at in range(0, len(digits), each))

    def _other_guid(self, found: re.Match[str]) -> str:
        prefix = found[0][: -len(found[1])]
        return prefix + self._hex(found[1]) if found[1].lower() in self._guids else found[0]

    def _other_ipv4(self, found: re.Match[str]) -> str:
        text = found[0].partition("/")[0]
        if text.rpartition(".")[0] not in self._networks:
            return found[0]
        try:
            address = IPv4Address(text)
        except AddressValueError:
            return found[0]
        return str(self._ipv4(address, int((found[1] or "/32")[1:]))) + (found[1] or "")

    def _ipv4(self, address: IPv4Address, length: int = 32) -> IPv4Address:
        value = int(address)
        if value >> 24 in (0, 127) or value >> 24 >= 224 or address.is_link_local or length > 32:
            return address
        is_network = not value & ((1 << (32 - length)) - 1)
        mask = ((1 << length) - 1) << (32 - length) if is_network else 0xFFFFFFFF
        return IPv4Address(value ^ (self._quad & mask))

    def _other_ipv6(self, found: re.Match[str]) -> str:
        text, _, length = found[0].partition("/")
        try:
            address = IPv6Address(text)
        except AddressValueError:
            return found[0]
        other = IPv6Address(self._ipv6(address, int(length or 128)))
        is_full = len(text) == 39
        said = other.exploded if is_full else other.compressed
        return said + (found[1] or "")

    def _ipv6(self, address: IPv6Address, length: int) -> int:
        value = int(address)
        if address.ipv4_mapped is not None:
            mapped = self._ipv4(address.ipv4_mapped)
            return value & ~0xFFFFFFFF | int(mapped)
        if not value >> 64 or address.is_multicast:
            return value
        if address.is_link_local or value >> 24 & 0xFFFF == 0xFFFE:
            value ^= self._low if value & ~(~0 << 64) else 0
        return value if address.is_link_local or length < 48 else value ^ self._high


def _names(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the node, and those in its /etc/hosts."""
    files = document["files"]
    yield document["node"]
    yield from (str(files.get(file) or "").strip() for file in _NAME_FILES)
    lines = [*str(files.get("/etc/hosts") or "").splitlines()]
    for check in document["checks"]:
        shown = check["stdout"]
        lines += [line.split("\0")[1] for line in shown.splitlines() if "/etc/hosts\0" in line]
        yield shown.strip() if check["argv"][-1:] == ["hostname"] else ""
    for line in lines:
        yield from line.partition("#")[0].split()[1:]


def _name_pattern(names: Iterator[str], numbered: dict[str, str]) -> re.Pattern[str] | None:
    """Return what finds the names, and number each."""
    for name in names:
        short, _, domain = name.partition(".")
        for part, other in ((short, "node-{}"), (domain, "domain-{}.example")):
            if re.fullmatch(r"[A-Za-z][\w.-]*", part) and not _is_word(part.lower()):
                numbered.setdefault(part, other.format(len(numbered) + 1))
    if not numbered:
        return None
    longest = "|".join(sorted(map(re.escape, numbered), key=len, reverse=True))
    return re.compile(rf"(?:(?<![\w.-])|(?<=\.))(?:{longest})(?![\w-])")


def _is_word(name: str) -> bool:
    """Return whether a name may be a word of a node's texts, such as the vm of vm.swappiness."""
    is_short = len(name) < _SHORT and not re.search(r"\d", name)
    return is_short or name in _WORDS or name.startswith(("ip6-", "localhost"))


def _texts(data: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    if isinstance(data, dict):
        for key, item in data.items():
            yield key
            yield from _texts(item)
    elif isinstance(data, list):
        for item in data:
            yield from _texts(item)
    elif isinstance(data, str):
        yield data
