"""A map of values by row and column, in colours, with rings around what is odd."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rdmaprov.report.drawing import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_LABELS = 16


@dataclass(frozen=True)
class HeatMap:
    """A rectangle of values.

    Args:
        values: by place (row, column).
        down: the label of the rows, which are names of nodes then; else empty.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Mapping[tuple[int, int], float]
    marked: frozenset[tuple[int, int]]
    down: str
    across: str


def draw_map(axes: Axes, found: HeatMap, unit: str, most: float) -> None:
    """Draw a map; values of `most` and above are the brightest."""
    grid = [
        [found.values.get((row, column), math.nan) for column in range(len(found.columns))]
        for row in range(len(found.rows))
    ]
    # In points squared; a ring is no larger than a cell, and all columns span about 400 points.
    ring = min(70.0, max(6.0, (330 / len(found.columns)) ** 2))
    draw_cells(axes, grid, found.marked, ring, (unit, most))
    if len(found.rows) != len(found.columns) or not found.down:
        axes.set_aspect("auto")
    _label(axes, found)


def draw_cells(
    axes: Axes,
    grid: Sequence[Sequence[float]],
    marked: Iterable[tuple[int, int]],
    ring: float,
    scale: tuple[str, float],
) -> None:
    """Draw cells from 0 to the most of a scale, which has a name, and rings of a size."""
    # The same colours in both schemes; cividis is readable without colour vision.
    image = axes.imshow(grid, cmap="cividis", vmin=0, vmax=scale[1], interpolation="none")
    if places := sorted(marked):
        rows, columns = zip(*places, strict=True)
        for colour, width in (("#ffffff", 2.4), ("#b3202a", 1.2)):
            axes.scatter(
                columns,
                rows,
                s=ring,
                marker="o",
                facecolors="none",
                edgecolors=colour,
                linewidths=width,
                clip_on=False,
            )
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.8)
    bar.set_label(scale[0])
    bar.outline.set_visible(False)


def _label(axes: Axes, found: HeatMap) -> None:
    across = range(0, len(found.columns), -(-len(found.columns) // _MOST_LABELS))
    axes.set_xticks(
        list(across),
        [short(found.columns[place]) for place in across],
        rotation=60,
        ha="right",
        rotation_mode="anchor",
    )
    down = range(0, len(found.rows), -(-len(found.rows) // (2 * _MOST_LABELS)))
    names = [short(name) if found.down else name for name in found.rows]
    axes.set_yticks(list(down), [names[place] for place in down])
    axes.set_xlabel(found.across)
    axes.set_ylabel(found.down)
