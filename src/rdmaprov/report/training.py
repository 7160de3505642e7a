"""The tables of training: tokens kept by number of nodes, and where a step's time goes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rdmaprov.bandwidth.rates import format_gb_s, format_percent
from rdmaprov.report.model import Plot, Table
from rdmaprov.words import quantity

_Point = Mapping[str, Any]
_PARTS = ("data", "forward", "backward", "optimizer")


def plots(data: Mapping[str, Any]) -> Iterator[Plot]:
    """Yield both tables, none if nothing was trained."""
    training = data.get("training")
    if not training or not training["points"]:
        return
    yield _efficiency(training)
    yield _steps(training["points"])


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
        f"{training['tokens']:,} tokens of each device and step; medians of groups side by side."
        + floor,
        _efficiency_table(points),
    )


def _name(point: _Point, points: Sequence[_Point]) -> str:
    """Return a strategy, with its rail where there are several."""
    name = str(point["strategy"]).upper()
    several = len({each["plane"] for each in points}) > 1
    return f"{name}, {point['plane']}" if several else name


def _efficiency_table(points: Sequence[_Point]) -> Table:
    head = ("nodes", "strategy", "groups", "tokens/s a device", "MFU", "of one node", "busbw")
    rows = tuple(
        (
            f"{point['nodes']:,}",
            _name(point, points),
            f"{point['groups']:,}",
            f"{point['tokens_s']:,.0f}",
            format_percent(point["mfu"]),
            format_percent(point["efficiency"]),
            format_gb_s(point["busbw_gb_s"]) if point["busbw_gb_s"] else "-",
        )
        for point in points
    )
    return Table(head, rows)


def _steps(points: Sequence[_Point]) -> Plot:
    worst = max(points, key=lambda point: point["exposed_us"] / point["step_us"])
    share = worst["exposed_us"] / worst["step_us"]
    words = (
        f"most of a step waits for communication on {quantity(worst['nodes'], 'node')} with "
        f"{_name(worst, points)}: {format_percent(share)}"
    )
    return Plot(
        "training-steps",
        "A training step by its phases",
        None,
        words,
        f"Median of ranks. {words[0].upper()}{words[1:]}. Waits "
        "are part of the phase in which they happen: with DDP, of the backward pass.",
        _step_table(points),
    )


def _step_table(points: Sequence[_Point]) -> Table:
    head = ("nodes", "strategy", *_PARTS, "step", "without communication", "exposed", "predicted")
    return Table(head, tuple(_step_row(point, points) for point in points))


def _step_row(point: _Point, points: Sequence[_Point]) -> tuple[str, ...]:
    parts = [_ms(point["phases_us"][part]) for part in _PARTS]
    times = [_ms(point[key]) for key in ("step_us", "alone_us", "exposed_us", "predicted_us")]
    return (f"{point['nodes']:,}", _name(point, points), *parts, *times)


def _ms(us: float | None) -> str:
    return "-" if us is None else f"{us / 1e3:,.1f} ms"
