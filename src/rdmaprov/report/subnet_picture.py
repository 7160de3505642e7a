"""A picture of a fabric: the load of each leaf's cables to each spine, as a matrix."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from rdmaprov.report.drawing import short
from rdmaprov.report.model import Plot, Table
from rdmaprov.report.subnet_matrix import LoadMatrix, matrix_of
from rdmaprov.words import quantity, some

# Units of the picture, which is as wide as a page's text: 960.
_WIDTH = 960.0
_LEFT, _RIGHT = 130.0, 150.0  # names of rows; bars
_WIDEST, _HIGHEST, _LOWEST = 60.0, 26.0, 8.0  # a cell
_TALLEST = 520.0  # all rows, if a cell may be that low
_LETTER = 11.0
_ROOM = 12.0  # between two names
_ROOM_TURNED = 16.0  # between two that are turned: 13 across them
_DEEP = 104.0  # the names of columns, turned
_MOST_TEXTS = 400  # cells with a tooltip


def draw(matrix: LoadMatrix) -> str:
    """Return the picture; without a cell, an empty text."""
    rows, columns = len(matrix.above), len(matrix.below)
    if not rows or not columns:
        return ""
    wide = min(_WIDEST, (_WIDTH - _LEFT - _RIGHT) / columns)
    high = min(_HIGHEST, max(_LOWEST, _TALLEST / rows))
    bottom = rows * high
    parts = [
        *_cells(matrix, wide, high),
        *_row_names(matrix, high),
        *_column_names(matrix, wide, bottom),
        *_bars(matrix, _LEFT + columns * wide + 14, high, bottom),
    ]
    return (
        f'<svg viewBox="0 -18 {_WIDTH:g} {bottom + _DEEP + 18:g}" aria-hidden="true"'
        f' style="width: 100%; min-width: 720px; font-size: {_LETTER:g}px; fill: var(--ink)">'
        f"{''.join(parts)}</svg>"
    )


def _cells(matrix: LoadMatrix, wide: float, high: float) -> Iterator[str]:
    gap = 1.0 if min(wide, high) >= 8 else 0.5
    for row, loads in enumerate(matrix.loads):
        for column, load in enumerate(loads):
            x, y = _LEFT + column * wide, row * high
            size = f'width="{wide - gap:.2f}" height="{high - gap:.2f}"'
            place = f'x="{x:.2f}" y="{y:.2f}" {size}'
            tip = _tip(matrix, row, column)
            yield f"<rect {place} {_fill(load, matrix.threshold)}>{tip}</rect>"
            if load is not None and wide >= 24 and high >= 14:
                yield _cell_text(load, matrix.threshold, x + wide / 2, y + high / 2)
            if (row, column) in matrix.lacks:
                middle = y + high - gap - 1.5
                yield (
                    f'<path d="M{x + 1:.2f} {middle:.2f}h{wide - gap - 2:.2f}"'
                    ' style="stroke: var(--unknown); stroke-width: 3"/>'
                )


def _fill(load: float | None, threshold: float) -> str:
    """Return the colour of a cell: red, or the stronger the more load; without a cable, none."""
    if load is None:
        return 'style="fill: none; stroke: var(--line)"'
    if load >= threshold:
        return 'style="fill: var(--bad)"'
    return f'style="fill: var(--series-0); fill-opacity: {0.08 + 0.62 * min(load, 1.3) / 1.3:.2f}"'


def _tip(matrix: LoadMatrix, row: int, column: int) -> str:
    load = matrix.loads[row][column]
    if load is None or len(matrix.above) * len(matrix.below) > _MOST_TEXTS:
        return ""
    return (
        f"<title>{escape(matrix.below[column])} to {escape(matrix.above[row])}: {load:.1f}</title>"
    )


def _cell_text(load: float, threshold: float, x: float, y: float) -> str:
    ink = "--paper" if load >= threshold else "--ink"
    return (
        f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle"'
        f' style="fill: var({ink})">{load:.1f}</text>'
    )


def _row_names(matrix: LoadMatrix, high: float) -> Iterator[str]:
    step = max(1, round(_ROOM / high + 0.49))
    for row in range(0, len(matrix.above), step):
        y = row * high + high / 2 + 4
        name = escape(short(matrix.above[row]))
        yield f'<text x="{_LEFT - 8:g}" y="{y:.1f}" text-anchor="end">{name}</text>'


def _column_names(matrix: LoadMatrix, wide: float, bottom: float) -> Iterator[str]:
    step = max(1, math.ceil(_ROOM_TURNED / wide))
    for column in range(0, len(matrix.below), step):
        x = _LEFT + column * wide + wide / 2
        name = escape(short(matrix.below[column]))
        turn = f'transform="translate({x:.1f} {bottom + 8:.1f}) rotate(-55)"'
        yield f'<text {turn} text-anchor="end" dominant-baseline="central">{name}</text>'


def _bars(matrix: LoadMatrix, left: float, high: float, bottom: float) -> Iterator[str]:
    """Yield the share of each row, with the fair share as a line."""
    room = _RIGHT - 14 - 44
    scale = room / max(*matrix.shares, matrix.fair, 0.01)
    fair = left + matrix.fair * scale
    yield f'<text x="{left:.1f}" y="-6">share of flows</text>'
    for row, share in enumerate(matrix.shares):
        y = row * high
        colour = "--bad" if share >= matrix.threshold * matrix.fair else "--series-0"
        yield (
            f'<rect x="{left:.1f}" y="{y + 1:.1f}" width="{max(share * scale, 0.5):.1f}"'
            f' height="{max(high - 3, 2):.1f}" style="fill: var({colour}); fill-opacity: 0.8"/>'
        )
        if high >= _ROOM:
            x = left + max(share, matrix.fair) * scale + 5
            yield f'<text x="{x:.1f}" y="{y + high / 2 + 4:.1f}">{share:.0%}</text>'
    yield (
        f'<path d="M{fair:.1f} 0V{bottom:.1f}"'
        ' style="stroke: var(--ink); stroke-width: 1; stroke-dasharray: 3 2"/>'
    )


_PATTERNS = {
    "ringx": "rings over the leaves, one for each rail, of which each hop crosses a spine",
    "all_to_all": "traffic of each HCA to each other",
}
_LEVELS = {0: "leaves", 1: "spines", 2: "cores"}
_MOST_ROWS = 512  # of the table; results.json has all


def plots(data: Mapping[str, Any]) -> tuple[Plot, ...]:
    """Return a picture for each two levels of each subnet that cables connect."""
    return tuple(
        _plot(f"load-{number}-{level}", subnet["device"], level, loads)
        for number, subnet in enumerate(data["subnets"])
        for level, loads in enumerate(subnet.get("loads", ()))
    )


def _plot(name: str, device: str, level: int, loads: Mapping[str, Any]) -> Plot:
    matrix = matrix_of(loads)
    of = f" of {device}" if device else ""
    low, high = (_LEVELS.get(each, f"level {each}") for each in (level, level + 1))
    title = f"Load of the links from {low} to {high}{of}"
    return Plot(name, title, draw(matrix), _words(matrix), _note(matrix, loads), _table(matrix))


def _words(matrix: LoadMatrix) -> str:
    uneven = [
        f"{matrix.below[column]} to {matrix.above[row]} ({load:.1f})"
        for row, column, load in matrix.uneven()
    ]
    if not uneven:
        return f"No cable carries {matrix.threshold:g} times its fair share or more"
    return (
        f"{quantity(len(uneven), 'pair')} of switches with a cable that carries"
        f" {matrix.threshold:g} times its fair share or more: {some(uneven, 3)}"
    )


def _note(matrix: LoadMatrix, loads: Mapping[str, Any]) -> str:
    shared = (
        f" A cell stands for several switches ({matrix.rows_each} by {matrix.columns_each}), and"
        " shows the worst."
        if matrix.rows_each * matrix.columns_each > 1
        else ""
    )
    return (
        f"Flows of {_PATTERNS.get(loads['pattern'], loads['pattern'])}. A cell is the busiest cable"
        " of a switch below (column) to one above (row), against the mean of all cables up of the"
        f" switch below: full colour is 1, {matrix.threshold:g} and more is red, paler is less; a"
        " dash is a pair with fewer cables than most. The bars are the share of all flows that go"
        f" through a switch above; the line is the fair share.{shared} {_words(matrix)}."
    )


def _table(matrix: LoadMatrix) -> Table:
    rows = [
        (name, f"{cables:,}", f"{flows:,}", f"{share:.1%}", _load(matrix.most_of(name)))
        for name, cables, flows, share in matrix.totals
    ]
    left_out = len(rows) - _MOST_ROWS
    return Table(
        ("switch", "cables", "flows", "share", "busiest cable / mean"),
        tuple(rows[:_MOST_ROWS]),
        f"{left_out:,} more in results.json" if left_out > 0 else "",
    )


def _load(value: float | None) -> str:
    return "none" if value is None else f"{value:.1f}"
