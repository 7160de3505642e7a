"""Stragglers: the delay of each rank in a small all-reduce."""

from collections.abc import Mapping
from typing import Any

from rdmaprov.nccl_log.matrix import format_ranges
from rdmaprov.report.model import Plot, Table
from rdmaprov.words import quantity, some

_MOST_NAMED = 6
_MOST_ROWS = 512  # of the table; results.json has all


def plot(data: Mapping[str, Any]) -> Plot | None:
    """Return the numbers, None if no delay was measured."""
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
        None,
        words,
        f"How long after the first of {quantity(ranks, 'rank')} each enters a small all-reduce: "
        f"median of 50, without comparing clocks. {words}.",
        _table(planes),
    )


def _name_stragglers(planes: list[Mapping[str, Any]]) -> str:
    late: dict[str, set[int]] = {}
    for plane in planes:
        for rank in plane["ranks"]:
            if rank["rank"] in plane["late_ranks"]:
                late.setdefault(rank["node"], set()).add(rank["rank"])
    named = [f"{node} (rank {format_ranges(own)})" for node, own in late.items()]
    return some(named, _MOST_NAMED) or "none"


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
