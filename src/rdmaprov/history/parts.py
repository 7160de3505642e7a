"""Parts of a file that may be of any version, cut, or somebody's work: each with its type, or not.

What is missing was not written by that version, and is left out. What has another type is damage.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rdmaprov.problem import printable

MOST_CHARACTERS = 400  # of a text that is kept; our choice: it is shown on a line


class Damaged(ValueError):
    """A part is not what results.json has there; the message names it."""


def text(data: Mapping[str, Any], key: str) -> str:
    """Return a text on one line, shortened; empty if it is missing or null."""
    value = data.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Damaged(key)
    return printable(value[:MOST_CHARACTERS])


def number(data: Mapping[str, Any], key: str) -> float | None:
    """Return a number that is finite and not negative; None if it is missing or null."""
    value = data.get(key)
    if value is None:
        return None
    if type(value) is int and 0 <= value < 1 << 64:
        return float(value)
    if type(value) is float and math.isfinite(value) and value >= 0:
        return value
    raise Damaged(key)


def index(data: Mapping[str, Any], key: str) -> int | None:
    """Return a whole number that is not negative; None if it is missing or null."""
    value = data.get(key)
    if value is None or (type(value) is int and 0 <= value < 1 << 62):
        return value
    raise Damaged(key)


def truth(data: Mapping[str, Any], key: str, default: bool) -> bool:
    """Return a truth; the default if it is missing."""
    value = data.get(key, default)
    if not isinstance(value, bool):
        raise Damaged(key)
    return value


def mapping(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return a mapping; an empty one if it is missing or null."""
    value = data.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Damaged(key)
    return value


def items(data: Mapping[str, Any], key: str) -> list[Any]:
    """Return a list; an empty one if it is missing or null."""
    value = data.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise Damaged(key)
    return value


def mappings(data: Mapping[str, Any], key: str) -> Iterator[dict[str, Any]]:
    """Yield the mappings of a list."""
    for each in items(data, key):
        if not isinstance(each, dict):
            raise Damaged(key)
        yield each


def by_name(data: Mapping[str, Any], key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names of a mapping to mappings, on one line and shortened, with what they name."""
    for name, each in mapping(data, key).items():
        if not isinstance(each, dict):
            raise Damaged(key)
        yield printable(name[:MOST_CHARACTERS]), each


def texts(data: Mapping[str, Any], key: str) -> list[str]:
    """Return the texts of a list, each on one line."""
    return [text({key: each}, key) for each in items(data, key)]
