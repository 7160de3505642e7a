"""Nodes by subjects, with nodes that are alike in one row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rdmaprov.report.model import ORDER, Cell, Grid, GridRow, Tone
from rdmaprov.runs import groups

ALL = "all nodes together"


def grid(
    subject: str,
    columns: Iterable[str],
    cells: Mapping[str, tuple[Cell, ...]],
    words: tuple[tuple[Tone, str], ...],
    together: tuple[Cell, ...] = (),
) -> Grid:
    """Return the grid of a run.

    Args:
        subject: what the columns are.
        columns: their names.
        cells: a node's cells, by its name.
        words: what the signs mean.
        together: the cells of what concerns all nodes at once; none if nothing does.

    """
    alike: dict[tuple[Cell, ...], list[str]] = {}
    for node, own in cells.items():
        alike.setdefault(own, []).append(node)
    rows = [
        GridRow(groups.label(names, len(cells)), tuple(names), own) for own, names in alike.items()
    ]
    if together:
        rows.append(GridRow(ALL, (), together))
    rows.sort(key=lambda row: (ORDER[row.tone], -_bad(row), len(row.nodes)))
    return Grid(subject, tuple(columns), tuple(rows), words)


def _bad(row: GridRow) -> int:
    """Return how many cells are as bad as the worst, if that is bad at all."""
    return sum(cell.tone is row.tone for cell in row.cells if row.tone is not Tone.GOOD)
