"""An answer on sizes as rows: each number with how it follows, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class SizingRow:
    """A number with how it follows, or a remark.

    Args:
        text: as a terminal has it, in one line.
        cells: the number's name, the number, and its formula; a part that it lacks is empty.

    """

    text: str
    cells: tuple[str, str, str]


@dataclass(frozen=True)
class SizingAnswer:
    """The answer to one question.

    Args:
        head: what was asked, in one line.
        rows: the numbers, in order.

    """

    head: str
    rows: tuple[SizingRow, ...]

    def lines(self) -> Iterator[str]:
        """Yield it as a terminal has it."""
        yield self.head
        yield from (row.text for row in self.rows)


def number_row(name: str, result: str, formula: str = "") -> SizingRow:
    """Return the row of a number: `name: result = formula`."""
    text = f"{name}: {result}" + (f" = {formula}" if formula else "")
    return SizingRow(text, (name, result, formula))


def remark_row(text: str) -> SizingRow:
    """Return the row of a remark on the row above it."""
    return SizingRow(f"  {text}", ("remark", "", text))
