"""Maps of many paths as one picture: a tile for each rail, of blocks first and then of nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rdmaprov.report.drawing import short
from rdmaprov.report.heat_map import draw_cells

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Above this many nodes, a cell is a pair of blocks: 8 tiles of 32 × 32 cells are what a page's
# width shows with cells that can be told apart.
MOST_NODES = 32
_ACROSS = 4  # tiles beside each other
_MOST_LABELS = 8


@dataclass(frozen=True)
class Tile:
    """A square of shares, senders by receivers.

    Args:
        title: above it.
        rows, columns: names.
        shares: by place (row, column); what is missing was not measured.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    shares: Mapping[tuple[int, int], float]


def blocks_of(nodes: Sequence[str], leaf_of: Mapping[str, str]) -> dict[str, list[str]]:
    """Return nodes in blocks: each one alone if they are few, else by leaf, else in equal parts."""
    if len(nodes) <= MOST_NODES:
        return {node: [node] for node in nodes}
    leaves: dict[str, list[str]] = {}
    for node in nodes:
        leaves.setdefault(leaf_of.get(node) or "leaf unknown", []).append(node)
    if 2 <= len(leaves) <= 2 * MOST_NODES:
        return leaves
    size = -(-len(nodes) // MOST_NODES)
    parts = [list(nodes[first : first + size]) for first in range(0, len(nodes), size)]
    return {f"{part[0]} to {part[-1]}": part for part in parts}


def tile(
    title: str,
    shares: Mapping[tuple[str, str], float],
    rows: Mapping[str, Sequence[str]],
    columns: Mapping[str, Sequence[str]],
) -> Tile:
    """Return a tile; a cell has its slowest path, so that no bad one is hidden.

    Args:
        title: of it.
        shares: of paths, by sender and receiver.
        rows, columns: the nodes of each.
    """
    row_of = {node: place for place, own in enumerate(rows.values()) for node in own}
    column_of = {node: place for place, own in enumerate(columns.values()) for node in own}
    cells: dict[tuple[int, int], float] = {}
    for (sender, receiver), share in shares.items():
        if sender in row_of and receiver in column_of:
            place = row_of[sender], column_of[receiver]
            cells[place] = min(share, cells.get(place, math.inf))
    return Tile(title, tuple(rows), tuple(columns), cells)


def picture_size(tiles: Sequence[Tile]) -> tuple[float, float]:
    """Return width and height of the picture of tiles, in inches."""
    across, down = _step(tiles)
    wide, high = min(_ACROSS, len(tiles)), -(-len(tiles) // _ACROSS)
    return 9.0, max(2.0, min(9.0, 0.5 + 7.0 * high * down / (wide * across)))


def _step(tiles: Sequence[Tile]) -> tuple[int, int]:
    """Return how many cells a tile is apart from the next one, across and down."""
    width = max(len(each.columns) for each in tiles)
    height = max(len(each.rows) for each in tiles)
    return width + max(2, width // 6), height + max(2, height // 4)


def draw_tiles(axes: Axes, tiles: Sequence[Tile], limit: float) -> None:
    """Draw tiles in rows of four; a ring marks a cell below the limit."""
    across, down = _step(tiles)
    gap_y = down - max(len(each.rows) for each in tiles)
    wide, high = min(_ACROSS, len(tiles)), -(-len(tiles) // _ACROSS)
    grid = [[math.nan] * (wide * across) for _ in range(high * down)]
    marked: list[tuple[int, int]] = []
    for number, each in enumerate(tiles):
        left, top = number % _ACROSS * across, number // _ACROSS * down + gap_y
        for (row, column), share in each.shares.items():
            grid[top + row][left + column] = min(share, 1.0)
            if share < limit:
                marked.append((top + row, left + column))
        axes.text(left - 0.5, top - 0.8, each.title, fontsize=8, va="bottom")
        _label(axes, each, left, top)
    size = min(60.0, max(4.0, (360 / len(grid[0])) ** 2))
    draw_cells(axes, grid, marked, size, ("share of good paths", 1))
    axes.set_xticks([])
    axes.set_yticks([])


def _label(axes: Axes, each: Tile, left: int, top: int) -> None:
    """Write some senders beside the first tile of a row; their receivers have the same order."""
    if left:
        return
    step = -(-len(each.rows) // _MOST_LABELS)
    for row in range(0, len(each.rows), step):
        axes.text(left - 0.8, top + row, short(each.rows[row]), fontsize=7, ha="right", va="center")
