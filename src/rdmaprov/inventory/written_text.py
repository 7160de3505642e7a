"""The text from which YAML read another value: quotes forgotten around it change its meaning.

YAML 1.1 reads `0000:18:00.0` as 1080.0 and `3:1` as 181 (base 60), `010` as 8 (octal), `2.30` as
2.3, and `on` as true.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import yaml

from rdmaprov.inventory.tags import position_of
from rdmaprov.problem import Position

_NUMBER = re.compile(r"(?:&\S+\s+)?([-+.]?\d[\w.:+-]*)")
_ENTRY = re.compile(r"""(?:"[^"]*"|'[^']*'|[^\s:]+)\s*:\s+(\w+)""")
_OCTAL = re.compile(r"[-+]?0[0-7_]+")
_FILES_KEPT = 4  # a file of 5,000 hosts is read once


def written_text(value: object) -> str:
    """Return a number or a date as its file has it; empty where the text cannot be read."""
    at = position_of(value)
    if at is None:
        return ""
    found = _NUMBER.match(_line(at.file, at.line), at.column - 1)
    text = found[1].rstrip(":") if found else ""
    return text if _reads_as(text, value) else ""


def written_boolean(entry: Position, value: bool) -> str:
    """Return the word from which YAML read a boolean; empty where that cannot be read.

    Args:
        entry: the place of the key before it, as a boolean has none of its own.
    """
    found = _ENTRY.match(_line(entry.file, entry.line), entry.column - 1)
    return found[1] if found and _reads_as(found[1], value) else ""


def notation(text: str) -> str:
    """Return the notation in which YAML reads a number, empty if it is decimal."""
    if ":" in text:
        return "base 60"
    return "octal" if _OCTAL.fullmatch(text) else ""


def _reads_as(text: str, value: object) -> bool:
    """Return whether YAML reads the text as the value; at a vaulted value there is another text."""
    try:
        read = yaml.safe_load(text) if text else None
        return isinstance(read, bool) == isinstance(value, bool) and bool(read == value)
    except (yaml.YAMLError, ValueError):
        return False


def _line(file: str, number: int) -> str:
    try:
        lines = _lines(file, Path(file).stat().st_mtime_ns)
    except (OSError, ValueError):
        return ""
    return lines[number - 1] if number <= len(lines) else ""


@lru_cache(maxsize=_FILES_KEPT)
def _lines(file: str, _changed_ns: int) -> tuple[str, ...]:
    return tuple(Path(file).read_text().split("\n"))
