"""The format of nccl.conf, in which NCCL reports no mistake. Runs on the node.

A line is split at its first "=", and nothing is taken off either part: a blank, a quote, a comment
behind the value or the word export become part of a name or of a value. A variable that is set
already, by an earlier line too, keeps its value. [NCCL src/misc/param.cc: setEnvFile]
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

PATH = "/etc/nccl.conf"
# Older versions of NCCL have no comments, and "=" in one makes it a variable: ours have none.
KEPT = "# Kept from the file that was here before:"
_HEADER = "# Written by rdmaprov (nccl), checksum {}; changes here are lost."
_OURS = re.compile(re.escape(_HEADER).replace(r"\{\}", "([0-9a-f]{8})"))
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST = 1023


@dataclass(frozen=True)
class Line:
    """One line that sets a variable, as NCCL takes it."""

    number: int
    name: str
    value: str


def lines(text: str) -> list[Line]:
    """Return the lines that set something."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.append(Line(number, name, value))
    return found


def effective(found: list[Line]) -> dict[str, str]:
    """Return what a process has from these lines: the first one for a variable counts."""
    values: dict[str, str] = {}
    for line in found:
        values.setdefault(line.name, line.value)
    return values


def render(own: dict[str, str], kept: dict[str, str]) -> str:
    """Return the text of a file of ours."""
    body = "".join(f"{name}={value}\n" for name, value in own.items())
    if kept:
        body += KEPT + "\n" + "".join(f"{name}={value}\n" for name, value in kept.items())
    return _HEADER.format(digest(body)) + "\n" + body


def is_ours(text: str) -> bool:
    """Return whether rdmaprov wrote this, and nobody edited it since."""
    header, _, body = text.partition("\n")
    found = _OURS.fullmatch(header)
    return found is not None and found[1] == digest(body)


def of_others(text: str) -> list[Line]:
    """Return the lines that are not rdmaprov's: in a file of ours, those that it kept."""
    if not is_ours(text):
        return lines(text)
    before, marker, _ = text.partition(KEPT + "\n")
    last = before.count("\n") if marker else text.count("\n")
    return [line for line in lines(text) if line.number > last]


def digest(text: str) -> str:
    """Return eight digits that tell texts apart."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:8]


def trap(name: str, value: str) -> str:
    """Return what NCCL would not read as it is meant, and what to write; empty if nothing."""
    if not _NAME.fullmatch(name):
        return (
            f"'{name}' is not the name of a variable: write NAME=VALUE, without export and blanks"
        )
    if not all(letter.isprintable() for letter in value):
        return f"{name} has a character that does not print: write one line of plain text"
    if value != value.strip() or "'" in value or '"' in value:
        return f"{name}: quotes and outer blanks become part of the value: write it without them"
    if re.search(r"\s#", value):
        return f"{name}: a comment behind the value becomes part of it: write it on its own line"
    if len(value) > _LONGEST:
        return f"{name} has {len(value)} characters, and NCCL cuts it after {_LONGEST}: shorten it"
    return ""
