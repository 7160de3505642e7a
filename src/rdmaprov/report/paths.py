"""The plot of single paths: blocks of all rails, and a table of the worst paths."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rdmaprov.bandwidth.rates import format_gb_s, format_percent
from rdmaprov.report.drawing import draw_svg, short
from rdmaprov.report.heat_map import draw_cells
from rdmaprov.report.model import Plot, Table
from rdmaprov.words import quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Above this many nodes, a cell is a pair of blocks: 8 tiles of 32 × 32 cells are what a page's
# width shows with cells that can be told apart.
MOST_NODES = 32
_ACROSS = 4  # tiles beside each other
_MOST_LABELS = 8
_MOST_ROWS = 200  # of the table; results.json has all
_Path = Mapping[str, Any]
_Ends = tuple[str, str]


@dataclass(frozen=True)
class Tile:
    """A square of shares, senders by receivers.

    Args:
        shares: by place (row, column); what is missing was not measured.
    """

    title: str
    names: tuple[str, ...]
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


def tile(title: str, shares: Mapping[_Ends, float], blocks: Mapping[str, Sequence[str]]) -> Tile:
    """Return a tile; a cell has its slowest path, so that no bad one is hidden."""
    place_of = {node: place for place, own in enumerate(blocks.values()) for node in own}
    cells: dict[tuple[int, int], float] = {}
    for (sender, receiver), share in shares.items():
        place = place_of[sender], place_of[receiver]
        cells[place] = min(share, cells.get(place, math.inf))
    return Tile(title, tuple(blocks), cells)


def picture_size(tiles: Sequence[Tile]) -> tuple[float, float]:
    """Return width and height of the picture of tiles, in inches."""
    across, down = _step(tiles)
    wide, high = min(_ACROSS, len(tiles)), -(-len(tiles) // _ACROSS)
    return 9.0, max(2.0, min(9.0, 0.5 + 7.0 * high * down / (wide * across)))


def _step(tiles: Sequence[Tile]) -> tuple[int, int]:
    """Return how many cells a tile is apart from the next one, across and down."""
    cells = len(tiles[0].names)
    return cells + max(2, cells // 6), cells + max(2, cells // 4)


def draw_tiles(axes: Axes, tiles: Sequence[Tile], limit: float) -> None:
    """Draw tiles in rows of four; a ring marks a cell below the limit."""
    across, down = _step(tiles)
    gap_y = down - len(tiles[0].names)
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
    step = -(-len(each.names) // _MOST_LABELS)
    for row in range(0, len(each.names), step):
        axes.text(
            left - 0.8, top + row, short(each.names[row]), fontsize=7, ha="right", va="center"
        )


def plots(data: Mapping[str, Any]) -> Iterator[Plot]:
    """Yield the plot of the paths of a run; none if no path was tested."""
    paths = data.get("paths")
    if not paths or not paths["rows"]:
        return
    nodes, limit = list(paths["names"]), paths["limit"]
    leaf_of = dict(zip(nodes, paths["leaves"], strict=True))
    rows = [_path(row, nodes, limit) for row in paths["rows"]]
    known = [row for row in rows if row["share"] is not None]
    bad = sorted((row for row in known if row["bad"]), key=lambda row: row["share"])
    blocks = blocks_of(nodes, leaf_of)
    words = (
        f"{quantity(len(known), 'path')}, {len(bad):,} bad, {len(rows) - len(known):,} unknown"
        f"{_name_worst(bad)}"
    )
    tiles = [tile(_title(rail), own, blocks) for rail, own in _by_rail(known)]
    yield Plot(
        "paths",
        "Bandwidth of paths, by rail",
        draw_svg("paths", picture_size(tiles), lambda axes: draw_tiles(axes, tiles, limit)),
        words,
        f"Senders from above, receivers from the left; a cell has its slowest path. {words}. A "
        f"ring marks a cell below {format_percent(limit)} of good paths. {paths['expected']}",
        _worst_table(bad or sorted(known, key=lambda row: row["share"]), rows),
    )


def _path(row: Sequence[Any], nodes: Sequence[str], limit: float) -> _Path:
    """Return a row of results.json by its names."""
    sender, receiver, rail, into, gb_s, share, usec, error = row
    return {
        "from": nodes[sender],
        "to": nodes[receiver],
        "rail": rail,
        "into": into,
        "gb_s": gb_s,
        "share": share,
        "usec": usec,
        "error": error,
        "bad": share is not None and share < limit,
    }


def _by_rail(rows: Sequence[_Path]) -> Iterator[tuple[tuple[int, int], dict[_Ends, float]]]:
    """Yield the shares of each rail's paths, the slower one of a path that was tested twice."""
    found: dict[tuple[int, int], dict[_Ends, float]] = defaultdict(dict)
    for row in rows:
        found[row["rail"], row["into"]][row["from"], row["to"]] = row["share"]
    yield from sorted(found.items())


def _title(rail: tuple[int, int]) -> str:
    return f"rail {rail[0]}" if rail[0] == rail[1] else f"rail {rail[0]} to rail {rail[1]}"


def _name_worst(bad: Sequence[_Path]) -> str:
    if not bad:
        return ""
    counts = Counter(row[end] for row in bad for end in ("from", "to"))
    return "; most often: " + ", ".join(f"{node} ({n})" for node, n in counts.most_common(4))


def _worst_table(shown: Sequence[_Path], rows: Sequence[_Path]) -> Table:
    """Return paths, the slowest first, and then those without a result."""
    silent = [row for row in rows if row["share"] is None]
    listed = [*shown, *silent][:_MOST_ROWS]
    lines = tuple(
        (
            row["from"],
            row["to"],
            _title((row["rail"], row["into"])),
            format_gb_s(row["gb_s"]) if row["gb_s"] else "-",
            "-" if row["share"] is None else format_percent(row["share"]),
            f"{row['usec']:.1f} µs" if row["usec"] else "-",
            row["error"],
        )
        for row in listed
    )
    rest = len(shown) + len(silent) - len(listed)
    more = f"{rest:,} more are in results.json." if rest else ""
    return Table(("from", "to", "rail", "bandwidth", "of good paths", "latency", ""), lines, more)
