"""Values that a switch wrote, checked: what does not fit is None, and so not known."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rdmaprov import boundary
from rdmaprov.boundary import RIGHT
from rdmaprov.switches.model import SwitchPort

MOST_PORTS = 4096  # our choice: a chassis has some 600
PORT = re.compile(r"[A-Za-z][\w./:-]{0,63}")
_NUMBER = re.compile(r"[0-9]{1,15}")
_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?(B|Bytes|KB|MB|GB)?")
_UNITS = {None: 1, "B": 1, "Bytes": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_text = boundary.text(most=1024)


def whole(value: object, least: int = 0, most: int = 1 << 50) -> int | None:
    """Return a whole number, from a number or its digits, with commas between thousands or none.

    >>> whole("9100"), whole("1,200"), whole(-1), whole("9" * 5000), whole(True)
    (9100, 1200, None, None, None)
    """
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip().replace(",", "")):
        value = int(value.strip().replace(",", ""))
    return value if type(value) is int and least <= value <= most else None


def numbers(value: object, most: int = 7) -> frozenset[int] | None:
    """Return a set of numbers from 0 on: digits, ranges, separated by commas or blanks.

    >>> sorted(numbers("0-2,5"))
    [0, 1, 2, 5]
    >>> numbers("3,x") is None, numbers("") == numbers("-") == frozenset()
    (True, True)
    """
    if type(value) is int:
        value = str(value)
    if not isinstance(value, str) or len(value) > 512:
        return None
    found: set[int] = set()
    for part in value.strip().strip("-").replace(",", " ").split():
        first, _, last = part.partition("-")
        low, high = whole(first, 0, most), whole(last or first, 0, most)
        if low is None or high is None or low > high:
            return None
        found.update(range(low, high + 1))
    return frozenset(found)


def counts(values: Mapping[str, object]) -> dict[str, int] | None:
    """Return the counters that have a number, None if none has.

    >>> counts({"rx": 7, "tx": "x"}), counts({"rx": None})
    ({'rx': 7}, None)
    """
    found = {name: whole(value) for name, value in values.items()}
    return {name: count for name, count in found.items() if count is not None} or None


def size_bytes(value: object) -> int | None:
    """Return a size in bytes; the units are powers of 1024.

    >>> size_bytes("146.48 KB"), size_bytes(150000), size_bytes("1501500 B"), size_bytes("inf")
    (149996, 150000, 1501500, None)
    """
    if type(value) is int:
        return whole(value)
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    return None if found is None else int(float(found[1]) * _UNITS[found[2]])


def words(value: object) -> str | None:
    """Return a text without control characters, None if it is none."""
    return value.strip() if isinstance(value, str) and _text(value) is RIGHT else None


def members(value: object) -> Mapping[str, Any]:
    """Return a mapping from texts, empty if it is none."""
    if not isinstance(value, dict) or len(value) > boundary.MOST_ITEMS:
        return {}
    return {key: each for key, each in value.items() if isinstance(key, str) and len(key) <= 1024}


def inner(value: object, *keys: str) -> Any:  # noqa: ANN401 - JSON
    """Return what stands under keys, None if one is missing."""
    for key in keys:
        value = members(value).get(key)
    return value


def number_map(value: object, most_key: int) -> Mapping[int, int] | None:
    """Return a mapping of numbers; None if it is none, or one of its numbers is not allowed."""
    if not isinstance(value, dict) or len(value) > 256:
        return None
    found = {}
    for key, each in value.items():
        low, high = whole(key, 0, most_key), whole(each, 0, 63)
        if low is None or high is None:
            return None
        found[low] = high
    return found


class PortTable:
    """Ports by name, in the order in which they are first named."""

    def __init__(self) -> None:
        self._ports: dict[str, SwitchPort] = {}

    def __iter__(self) -> Iterator[SwitchPort]:
        """Return the ports."""
        return iter(tuple(self._ports.values()))

    def __contains__(self, name: object) -> bool:
        """Return whether a port was named."""
        return name in self._ports

    def add(self, name: object, **facts: Any) -> None:  # noqa: ANN401 - SwitchPort has the types
        """Add facts of a port; those that are None say nothing. An impossible name is no port."""
        if not isinstance(name, str) or not PORT.fullmatch(name):
            return
        if name not in self._ports and len(self._ports) >= MOST_PORTS:
            return
        known = {key: each for key, each in facts.items() if each is not None}
        self._ports[name] = replace(self._ports.get(name, SwitchPort(name)), **known)
