"""The running configuration of Arista EOS, as text or as JSON, as sections of lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rdmaprov.switches.saved import SavedAnswer
from rdmaprov.switches.shapes import members

_MOST_LINES = 400_000
_MOST_DEPTH = 8
_LONGEST = 1024


@dataclass
class EosSection:
    """The lines of a section, in their order; a line that opens a section has it."""

    lines: dict[str, EosSection] = field(default_factory=dict)

    def section(self, line: str) -> EosSection:
        """Return the section that a line opens, which is made if it is not there."""
        return self.lines.setdefault(line, EosSection())

    def under(self, start: str) -> Iterator[tuple[str, EosSection]]:
        """Yield what follows a beginning in each line that has it, and the line's section."""
        for line, inner in self.lines.items():
            if line.startswith(start):
                yield line[len(start) :].strip(), inner

    def has(self, line: str) -> bool:
        """Return whether a line is there."""
        return line in self.lines

    def last(self, start: str) -> str | None:
        """Return what follows a beginning in the last line that has it."""
        found = [rest for rest, _ in self.under(start)]
        return found[-1] if found else None


def is_config(answer: SavedAnswer) -> bool:
    """Return whether an answer is a running configuration, by what no other system writes."""
    if answer.document is not None:
        commands = members(members(answer.document).get("cmds"))
        return any(line.startswith(_JSON_LINES) for line in commands)
    return _TELLING.search(answer.text[: 1 << 20]) is not None


_JSON_LINES = ("interface Ethernet", "qos profile ", "qos map ", "priority-flow-control ")
_TELLING = re.compile(
    r"^[ \t]*(?:! device: .*\bEOS-|service-profile |random-detect ecn (?:minimum|count)"
    r"|qos map (?:dscp|cos|traffic-class) [0-9, -]+ to |(?:uc-)?tx-queue [0-9]+$"
    r"|priority-flow-control (?:on$|all off$|pause watchdog |priority [0-7] (?:no-)?drop$)"
    r"|transceiver qsfp default-mode |service routing protocols model |daemon TerminAttr$"
    r"|management api (?:http-commands|gnmi)$|interface Management[0-9]+$|mlag configuration$)",
    re.MULTILINE,
)


def config_of(answer: SavedAnswer) -> EosSection:
    """Return the sections of a running configuration."""
    root = EosSection()
    if answer.document is not None:
        _take(members(answer.document), root, 0)
    else:
        _read_text(answer.text, root)
    return root


def _take(document: Mapping[str, Any], into: EosSection, depth: int) -> None:
    """Add what JSON has: `cmds` maps each line to None, or to the section that it opens."""
    for line, below in members(document.get("cmds")).items():
        section = into.section(line.strip()[:_LONGEST])
        if depth < _MOST_DEPTH:
            _take(members(below), section, depth + 1)


def _read_text(text: str, root: EosSection) -> None:
    above: list[tuple[int, EosSection]] = [(-1, root)]
    for raw in text.split("\n")[:_MOST_LINES]:
        line = raw[:_LONGEST].rstrip()
        words = line.strip()
        if not words or words.startswith("!"):
            continue
        indent = len(line) - len(line.lstrip())
        while above[-1][0] >= indent:
            above.pop()
        section = above[-1][1].section(words)
        if len(above) <= _MOST_DEPTH:
            above.append((indent, section))
