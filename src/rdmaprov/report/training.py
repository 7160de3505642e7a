"""The table of training: tokens kept, and time that waits for communication, by nodes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rdmaprov.bandwidth.rates import format_gb_s, format_percent
from rdmaprov.report.model import Plot, Table
from rdmaprov.words import quantity

_Point = Mapping[str, Any]


def plots(data: Mapping[str, Any]) -> Iterator[Plot]:
    """Yield the table, none if nothing was trained."""
    training = data.get("training")
    if not training or not training["points"]:
        return
    yield _efficiency(training)


def _efficiency(training: Mapping[str, Any]) -> Plot:
    points, least = training["points"], training["least_efficiency"]
    last = max(point["nodes"] for point in points)
    words = "; ".join(
        f"{_name(point, points)}: {format_percent(point['efficiency'])} of one node's tokens per "
        f"second and device on {quantity(last, 'node')}"
        for point in points
        if point["nodes"] == last
    )
    floor = (
        f" The floor is {format_percent(least)}."
        if least
        else " There is no floor: these are CPUs."
    )
    return Plot(
        "training",
        "Training efficiency by number of nodes",
        None,
        words,
        f"{words}. {training['parameters'] / 1e6:,.0f} million parameters in {training['dtype']}, "
        f"{training['tokens']:,} tokens of each device and step; medians of groups side by side. "
        f"Exposed: the share of a step that waits for communication.{floor}",
        _efficiency_table(points),
    )


def _name(point: _Point, points: Sequence[_Point]) -> str:
    """Return a strategy, with its rail where there are several."""
    name = str(point["strategy"]).upper()
    several = len({each["plane"] for each in points}) > 1
    return f"{name}, {point['plane']}" if several else name


def _efficiency_table(points: Sequence[_Point]) -> Table:
    head = ("nodes", "strategy", "groups", "tokens/s a device", "MFU", "of one node")
    rows = tuple(
        (
            f"{point['nodes']:,}",
            _name(point, points),
            f"{point['groups']:,}",
            f"{point['tokens_s']:,.0f}",
            format_percent(point["mfu"]),
            format_percent(point["efficiency"]),
            format_percent(point["exposed_us"] / point["step_us"]),
            format_gb_s(point["busbw_gb_s"]) if point["busbw_gb_s"] else "-",
        )
        for point in points
    )
    return Table((*head, "exposed", "busbw"), rows)
