"""Tables of text, whose columns a line of dashes marks, as SONiC and Cumulus Linux print them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

_RULE = re.compile(r"\s*-+(?: +-+)+\s*")
_DASHES = re.compile(r"-+")
_MOST_LINES = 200_000
_LONGEST = 4096


@dataclass(frozen=True)
class TextTable:
    """A table."""

    title: str  # the last line above it that stands alone, empty if there is none
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    indents: tuple[int, ...]  # blanks before the first cell of each row

    def records(self) -> Iterator[dict[str, str]]:
        """Yield each row by the heads of the columns."""
        for row in self.rows:
            yield dict(zip(self.columns, row, strict=True))


def text_tables(text: str) -> list[TextTable]:
    """Return the tables of a text; a table ends with an empty line, or a line of `=` below one."""
    lines = [line[:_LONGEST].expandtabs().rstrip() for line in text.split("\n")[:_MOST_LINES]]
    found, start = [], 0
    for place, line in enumerate(lines):
        if place and _RULE.fullmatch(line):
            found.append(_table(lines, start, place))
            start = place + 1
    return found


def _table(lines: list[str], start: int, rule: int) -> TextTable:
    spans = [each.span() for each in _DASHES.finditer(lines[rule])]
    rows: list[tuple[str, ...]] = []
    indents: list[int] = []
    for place in range(rule + 1, len(lines)):
        line = lines[place]
        below = lines[place + 1] if place + 1 < len(lines) else ""
        if not line.strip():
            if rows:
                break
            continue
        if _RULE.fullmatch(below) or below.lstrip().startswith("==="):
            break
        rows.append(_cells(line, spans))
        indents.append(len(line) - len(line.lstrip()))
    heads = _cells(lines[rule - 1], spans)
    return TextTable(_title(lines, start, rule), heads, tuple(rows), tuple(indents))


def _title(lines: list[str], start: int, rule: int) -> str:
    for place in range(rule - 1, start, -1):
        if lines[place].lstrip().startswith("==="):
            return lines[place - 1].strip()
    return ""


def _cells(line: str, spans: list[tuple[int, int]]) -> tuple[str, ...]:
    """Return the cells of a line; what is wider than its column belongs to that column."""
    starts = [0, *(left for left, _ in spans[1:]), len(line) + 1]
    return tuple(line[left:right].strip() for left, right in pairwise(starts))
