"""The plot of rail balance: bytes that each rail sent, against the mean of its node."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rdmaprov.rail_counters.traffic import MIN_SHARE
from rdmaprov.report.drawing import BAD, INK, LINES, MARKERS, SERIES, draw_svg, short
from rdmaprov.report.model import Plot, Table
from rdmaprov.words import some

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_NAMED = 6
_MOST_POINTS = 64  # nodes that are drawn one by one
_Shares = Mapping[int, Mapping[str, float]]  # rail, node, share of the node's mean


def plot(data: Mapping[str, Any]) -> Plot | None:
    """Return the plot, None if no node has counters of two rails."""
    found = shares(data["rails"])
    if not found:
        return None
    low = sorted(
        (share, node, rail)
        for rail, own in found.items()
        for node, share in own.items()
        if share < MIN_SHARE
    )
    named = (f"{node} rail {rail} ({share:.0%})" for share, node, rail in low)
    words = f"Below {MIN_SHARE:.0%} of the node's mean: {some(named, _MOST_NAMED) or 'no rail'}"
    return Plot(
        "rails",
        "Rail balance",
        draw_svg("rails", (9, 3.2), lambda axes: _draw(axes, found)),
        words,
        f"Bytes sent by each rail, relative to the mean of its node. {words}.",
        _table(found),
    )


def shares(counters: list[Mapping[str, Any]]) -> dict[int, dict[str, float]]:
    """Return what each rail sent, as a share of its node's mean, by rail and node.

    Leaves out nodes with one rail, and nodes with a rail that has no counters.
    """
    by_node: dict[str, dict[int, int | None]] = {}
    for each in counters:
        by_node.setdefault(each["node"], {})[each["rail"]] = each["sent_bytes"]
    found: dict[int, dict[str, float]] = {}
    for node, own in by_node.items():
        known = {rail: count for rail, count in own.items() if count is not None}
        mean = statistics.fmean(known.values()) if known else 0.0
        if len(known) < max(2, len(own)) or not mean:
            continue
        for rail, count in known.items():
            found.setdefault(rail, {})[node] = count / mean
    return dict(sorted(found.items()))


def _draw(axes: Axes, found: _Shares) -> None:
    axes.axhline(100, color=LINES, linewidth=1)
    axes.axhline(100 * MIN_SHARE, color=BAD, linestyle="--", linewidth=1.5)
    axes.annotate(
        f"limit {MIN_SHARE:.0%}",
        (0, 100 * MIN_SHARE),
        (4, -4),
        va="top",
        color=BAD,
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
    )
    labelled = 0
    for place, own in enumerate(found.values()):
        values = {node: 100 * share for node, share in own.items()}
        good = [value for value in values.values() if value >= 100 * MIN_SHARE]
        _spread(axes, place, good)
        for node, value in sorted(values.items(), key=lambda each: each[1]):
            if value < 100 * MIN_SHARE:
                axes.plot(place, value, marker="X", color=BAD, markersize=8, linestyle="none")
                if labelled < _MOST_NAMED:
                    axes.annotate(
                        short(node),
                        (place, value),
                        (9, 0),
                        textcoords="offset points",
                        va="center",
                        color=INK,
                    )
                    labelled += 1
    axes.set_xticks(range(len(found)), [f"rail {rail}" for rail in found])
    axes.set_xlim(-0.5, len(found) - 0.3)
    axes.set_ylim(
        0, 1.1 * max([100, *(100 * share for own in found.values() for share in own.values())])
    )
    axes.set_ylabel("% of the node's mean")
    axes.grid(visible=False, axis="x")


def _spread(axes: Axes, place: int, values: list[float]) -> None:
    """Draw the nodes of a rail: one by one, or the range with the median."""
    if not values:
        return
    if len(values) <= _MOST_POINTS:
        axes.plot(
            [place] * len(values),
            values,
            linestyle="none",
            marker=MARKERS[0],
            markersize=5,
            color=SERIES[0],
            alpha=0.6,
        )
        return
    axes.vlines(place, min(values), max(values), color=SERIES[0], linewidth=8, alpha=0.5)
    axes.plot(
        place,
        statistics.median(values),
        marker="_",
        markersize=22,
        color=SERIES[0],
        markeredgewidth=2.5,
    )


def _table(found: _Shares) -> Table:
    rows = []
    for rail, own in found.items():
        least = min(own, key=own.__getitem__)
        values = list(own.values())
        figures = (min(values), statistics.median(values), max(values))
        low = sum(value < MIN_SHARE for value in values)
        rows.append((f"rail {rail}", *(f"{value:.1%}" for value in figures), least, str(low)))
    head = ("rail", "lowest", "median", "highest", "lowest on", f"below {MIN_SHARE:.0%}")
    return Table(head, tuple(rows))
