"""A matrix of loads as an <svg> element in the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

from rdmaprov.report.drawing import short
from rdmaprov.report.subnet_matrix import LoadMatrix

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
