"""The grid of nodes by subjects; equal nodes share a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rdmaprov.report.model import ORDER, Cell, Grid, GridRow, Tone
from rdmaprov.runs import groups

ALL = "whole fleet"


def grid(
    subject: str,
    columns: Iterable[str],
    cells: Mapping[str, tuple[Cell, ...]],
    words: tuple[tuple[Tone, str], ...],
    together: tuple[Cell, ...] = (),
) -> Grid:
    """Return the grid of a run.

    Args:
        cells: a node's cells, by its name.
        together: the cells of the whole fleet; none if no finding concerns it.
    """
    groups_of: dict[tuple[Cell, ...], list[str]] = {}
    for node, own in cells.items():
        groups_of.setdefault(own, []).append(node)
    rows = [
        GridRow(groups.label(names, len(cells)), tuple(names), own)
        for own, names in groups_of.items()
    ]
    if together:
        rows.append(GridRow(ALL, (), together))
    rows.sort(key=lambda row: (ORDER[row.tone], -_bad(row), len(row.nodes)))
    return Grid(subject, tuple(columns), tuple(rows), words)


def _bad(row: GridRow) -> int:
    """Return how many cells are as bad as the worst, 0 if all are good."""
    return sum(cell.tone is row.tone for cell in row.cells if row.tone is not Tone.GOOD)
