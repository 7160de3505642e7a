"""What is wrong with a value of another type, and what to write.

YAML 1.1 reads `0000:18:00.0` as 1080.0 and `3:1` as 181 (base 60), `010` as 8 (octal), `2.30` as
2.3, and `on` as true.
"""

import difflib
import re
from collections.abc import Iterable
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from rdmaprov.inventory.schema import Option
from rdmaprov.inventory.tags import position_of
from rdmaprov.problem import Position

_NUMBER = re.compile(r"(?:&\S+\s+)?([-+.]?\d[\w.:+-]*)")
_ENTRY = re.compile(r"""(?:"[^"]*"|'[^']*'|[^\s:]+)\s*:\s+(\w+)""")
_RATE = re.compile(r"(\d+) ?G\S*", re.IGNORECASE)
_OCTAL = re.compile(r"[-+]?0[0-7_]+")
_FILES_KEPT = 4  # a file of 5,000 hosts is read once
_KINDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "bytes": "a size such as 64G",
    "list": "a list",
    "dict": "a dictionary",
}
_MOST_CHARACTERS = 60
_IN_QUOTES = "write it in quotes"


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


def wrong_type(option: Option, value: Any) -> tuple[str, str]:
    """Return the message and the remedy for a value that has no place in the option's type."""
    if option.type == "str" and not isinstance(value, (list, tuple, dict)):
        return _unquoted(option, value)
    text = written_text(value) if isinstance(value, (int, float)) else ""
    if name := notation(text):
        avoid = "a colon" if ":" in text else "leading zeros"
        return (
            f"YAML reads {text} as {_decimal(value)} ({name})",
            f"write {_KINDS[option.type]} without {avoid}",
        )
    rate = _RATE.fullmatch(str(value))  # as people write it
    wanted = rate[1] if rate and int(rate[1]) in option.choices else expected(option, value)
    return f"{in_words(value)} is not {_KINDS[option.type]}", f"write {wanted}"


def _unquoted(option: Option, value: Any) -> tuple[str, str]:
    """Return the message and the remedy for text without quotes that YAML reads as no text."""
    if option.choices:
        return f"{in_words(value)} is not text", f"write {expected(option, value)}"
    if isinstance(value, bool):
        message = "YAML reads yes, no, on, off, true and false without quotes as a boolean"
        return message, _IN_QUOTES
    text = written_text(value)
    if not text:
        return f"{in_words(value)} is a {_noun(value)}, not text", _IN_QUOTES
    return as_text(value, text)


def as_text(value: Any, text: str) -> tuple[str, str]:
    """Return the message and the remedy for a number or a date that is to be text as written."""
    reading = f"a {_noun(value)}" if text == _decimal(value) else _reading(value, text)
    return f"YAML reads {text} without quotes as {reading}", f'write "{text}" in quotes'


def as_written(value: Any, entry: Position, message: str, remedy: str) -> tuple[str, str]:
    """Return a message and a remedy about a value, with a boolean as its file has it."""
    text = written_boolean(entry, value) if isinstance(value, bool) else ""
    is_text = remedy == _IN_QUOTES
    if not text or (text == in_words(value) and not is_text):
        return message, remedy
    reading = "a boolean" if text == in_words(value) else in_words(value)
    told = f"YAML reads {text} without quotes as {reading}"
    return told, f'write "{text}" in quotes' if is_text else remedy


def _reading(value: Any, text: str) -> str:
    name = notation(text)
    return f"the {_noun(value)} {_decimal(value)}" + (f" ({name})" if name else "")


def _noun(value: Any) -> str:
    return "date" if isinstance(value, date) else "number"


def _decimal(number: Any) -> str:
    """Return a number as YAML prints it, a whole one without its .0."""
    whole = isinstance(number, float) and number.is_integer()
    return str(int(number)) if whole else str(number)


def expected(option: Option, value: Any = None) -> str:
    """Return what to write for an option, in words."""
    if option.choices and option.type != "list":
        return _choice(option, value)
    if option.type == "list":
        is_item = option.elements == "str" and isinstance(value, str) and value.isprintable()
        other = "{...}" if option.elements == "dict" else "..., ..."
        return f"a list, such as [{value if is_item else other}]"
    if option.type == "dict":
        return "a dictionary, such as {name: value}"
    return _KINDS.get(option.type, option.type)


def _choice(option: Option, value: Any) -> str:
    texts = [str(choice) for choice in option.choices]
    lower = [text.lower() for text in texts] if option.type == "str" else []
    near = difflib.get_close_matches(str(value).lower(), lower, n=1)
    return texts[lower.index(near[0])] if near else f"one of {', '.join(texts)}"


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return the nearest known name, or all of them when none is near."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return near[0] if near else f"one of {', '.join(sorted(names))}"


def in_words(value: Any) -> str:
    """Return a value in a message: text in quotes, and not too long."""
    if isinstance(value, bool):
        return str(value).lower()
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."
