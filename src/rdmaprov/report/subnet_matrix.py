"""The loads between two levels of a fabric, in as many cells as a page can show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rdmaprov.subnet.check_routes import MOST_EXCESS

# Cells along each edge that a page of 960 px can show apart; our choice.
MOST_COLUMNS = 128
MOST_ROWS = 64


@dataclass(frozen=True)
class LoadMatrix:
    """Cells: rows are switches above, columns those below.

    Args:
        above: the first switch of each row.
        below: the first switch of each column.
        loads: for each row and column the busiest cable against the mean of the cables of the
            switch below; None without a cable.
        totals: of each switch above: name, cables, flows, share.
        threshold: the load from which a cell has a ring.
    """

    above: tuple[str, ...]
    below: tuple[str, ...]
    loads: tuple[tuple[float | None, ...], ...]
    totals: tuple[tuple[str, int, int, float], ...]
    most: Mapping[str, float | None]
    rows_each: int = 1
    columns_each: int = 1
    threshold: float = MOST_EXCESS

    def uneven(self) -> list[tuple[int, int, float]]:
        """Return the cells with a ring by row and column, the worst first."""
        found = [
            (row, column, load)
            for row, own in enumerate(self.loads)
            for column, load in enumerate(own)
            if load is not None and load >= self.threshold
        ]
        return sorted(found, key=lambda cell: (-cell[2], cell))


def matrix_of(loads: Mapping[str, Any]) -> LoadMatrix:
    """Return the matrix of a level in results.json."""
    above, below = loads["above"], loads["below"]
    relative = _relative(loads)
    rows = _blocks(len(above), MOST_ROWS)
    columns = _blocks(len(below), MOST_COLUMNS)
    flows = [sum(own) for own in loads["flows"]]
    total = sum(flows) or 1
    return LoadMatrix(
        tuple(above[row[0]] for row in rows),
        tuple(below[column[0]] for column in columns),
        tuple(
            tuple(_worst(relative[r][c] for r in row for c in column) for column in columns)
            for row in rows
        ),
        tuple(
            (name, sum(cables), own, own / total)
            for name, cables, own in zip(above, loads["cables"], flows, strict=True)
        ),
        {name: _worst(own) for name, own in zip(above, relative, strict=True)},
        len(rows[0]) if rows else 1,
        len(columns[0]) if columns else 1,
    )


def _relative(loads: Mapping[str, Any]) -> list[list[float | None]]:
    """Return the busiest cable of each pair against the mean of the cables of the one below."""
    cables, flows, busiest = loads["cables"], loads["flows"], loads["busiest"]
    means = [
        sum(own[column] for own in flows) / (sum(own[column] for own in cables) or 1)
        for column in range(len(loads["below"]))
    ]
    return [
        [
            (load / mean if mean else 0.0) if count else None
            for load, count, mean in zip(own, counts, means, strict=True)
        ]
        for own, counts in zip(busiest, cables, strict=True)
    ]


def _blocks(count: int, most: int) -> list[range]:
    size = -(-count // most) or 1
    return [range(first, min(first + size, count)) for first in range(0, count, size)]


def _worst(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return max(found, default=None)
