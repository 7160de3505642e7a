"""The plot of stragglers: the delay of each rank in a small all-reduce."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rdmaprov.nccl_log.matrix import format_ranges
from rdmaprov.report.drawing import BAD, DASHES, INK, MARKERS, SERIES, draw_svg, short
from rdmaprov.report.model import Plot, Table
from rdmaprov.words import quantity, some

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_MARKERS = 64
_MOST_NAMED = 6
_MOST_ROWS = 512  # of the table; results.json has all


def plot(data: Mapping[str, Any]) -> Plot | None:
    """Return the plot, None if no delay was measured."""
    planes = [
        plane
        for plane in data["planes"]
        if any(rank["late_us"] is not None for rank in plane["ranks"])
    ]
    if not planes:
        return None
    words = f"Stragglers: {_name_stragglers(planes)}"
    ranks = max(len(plane["ranks"]) for plane in planes)
    return Plot(
        "ranks",
        "Stragglers",
        draw_svg("ranks", (9, 3.2), lambda axes: _draw(axes, planes)),
        words,
        f"How long after the first of {quantity(ranks, 'rank')} each enters a small all-reduce: "
        f"median of 50, without comparing clocks. {words}.",
        _table(planes),
    )


def _name_stragglers(planes: list[Mapping[str, Any]]) -> str:
    """Return the nodes with a straggler on any plane."""
    late: dict[str, set[int]] = {}
    for plane in planes:
        for rank in plane["ranks"]:
            if rank["rank"] in plane["late_ranks"]:
                late.setdefault(rank["node"], set()).add(rank["rank"])
    named = [f"{node} (rank {format_ranges(own)})" for node, own in late.items()]
    return some(named, _MOST_NAMED) or "none"


def _draw(axes: Axes, planes: list[Mapping[str, Any]]) -> None:
    named: set[str] = set()
    for number, plane in enumerate(planes):
        ranks = [rank for rank in plane["ranks"] if rank["late_us"] is not None]
        few = len(ranks) <= _MOST_MARKERS
        axes.plot(
            [rank["rank"] for rank in ranks],
            [rank["late_us"] for rank in ranks],
            color=SERIES[number % len(SERIES)],
            linestyle="none" if few else DASHES[number // len(SERIES) % len(DASHES)],
            drawstyle="steps-mid",
            linewidth=1.2,
            marker=MARKERS[number % len(MARKERS)] if few else "",
            markersize=4,
            label=plane["name"],
        )
        for rank in ranks:
            if rank["rank"] in plane["late_ranks"]:
                _mark(axes, rank, named)
    axes.set_xlabel("rank")
    axes.set_ylabel("delay (µs)")
    axes.set_ylim(
        0, 1.2 * max([1.0, *(rank["late_us"] or 0 for p in planes for rank in p["ranks"])])
    )
    axes.locator_params(axis="x", integer=True)
    if len(planes) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _mark(axes: Axes, rank: Mapping[str, Any], named: set[str]) -> None:
    """Mark a straggler; name its node once, if there are few nodes."""
    place = (rank["rank"], rank["late_us"])
    axes.plot(*place, marker="X", color=BAD, markersize=9, linestyle="none")
    if rank["node"] not in named and len(named) < _MOST_NAMED:
        named.add(rank["node"])
        axes.annotate(
            short(rank["node"]), place, (0, 9), textcoords="offset points", color=INK, ha="center"
        )


def _table(planes: list[Mapping[str, Any]]) -> Table:
    """Return the table of ranks, the longest delay first."""
    ranks = [(plane, rank) for plane in planes for rank in plane["ranks"]]
    ranks.sort(key=lambda each: -(each[1]["late_us"] or 0))
    rows = tuple(
        (
            plane["name"],
            str(rank["rank"]),
            rank["node"],
            _us(rank["late_us"]),
            _us(rank["median_us"]),
            _us(rank["p99_us"]),
            "straggler" if rank["rank"] in plane["late_ranks"] else "",
        )
        for plane, rank in ranks[:_MOST_ROWS]
    )
    rest = len(ranks) - len(rows)
    left_out = f"The slowest {len(rows)} of {len(ranks):,}; results.json has all." if rest else ""
    head = ("rails", "rank", "node", "delay", "all-reduce, median", "99th percentile", "")
    return Table(head, rows, left_out)


def _us(value: float | None) -> str:
    return "not measured" if value is None else f"{value:,.0f} µs"
