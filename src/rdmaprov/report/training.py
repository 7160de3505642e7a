"""The plots of training: tokens kept by number of nodes, and where a step's time goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rdmaprov.bandwidth.rates import format_gb_s, format_percent
from rdmaprov.report.drawing import BAD, INK, MARKERS, SERIES, draw_svg
from rdmaprov.report.model import Plot, Table
from rdmaprov.words import quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Point = Mapping[str, Any]
_PARTS = ("data", "forward", "backward", "optimizer")


def plots(data: Mapping[str, Any]) -> Iterator[Plot]:
    """Yield both plots, none if nothing was trained."""
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
        draw_svg("training", (9, 3.4), lambda axes: _draw_curves(axes, points, least)),
        words,
        f"{words}. {training['parameters'] / 1e6:,.0f} million parameters in {training['dtype']}, "
        f"{training['tokens']:,} tokens of each device and step; medians of groups side by side."
        + floor,
        _efficiency_table(points),
    )


def _curves(points: Sequence[_Point]) -> dict[str, list[_Point]]:
    found: dict[str, list[_Point]] = {}
    for point in points:
        found.setdefault(_name(point, points), []).append(point)
    return found


def _name(point: _Point, points: Sequence[_Point]) -> str:
    """Return a strategy, with its rail where there are several."""
    name = str(point["strategy"]).upper()
    several = len({each["plane"] for each in points}) > 1
    return f"{name}, {point['plane']}" if several else name


def _draw_curves(axes: Axes, points: Sequence[_Point], least: float | None) -> None:
    for number, (name, own) in enumerate(_curves(points).items()):
        axes.plot(
            [point["nodes"] for point in own],
            [100 * point["efficiency"] for point in own],
            color=SERIES[number % len(SERIES)],
            marker=MARKERS[number % len(MARKERS)],
            markersize=4,
            label=name,
        )
    if least:
        axes.axhline(100 * least, color=BAD, linestyle="--", linewidth=1.5)
    sizes = sorted({point["nodes"] for point in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.set_ylim(0, 110 * max(1.0, *(point["efficiency"] for point in points)))
    axes.set_xlabel("nodes that train together")
    axes.set_ylabel("of one node (%)")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


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
        draw_svg("training-steps", (9, 3.4), lambda axes: _draw_steps(axes, points)),
        words,
        f"Median of ranks; the cross is the predicted step. {words[0].upper()}{words[1:]}. Waits "
        "are part of the phase in which they happen: with DDP, of the backward pass.",
        _step_table(points),
    )


def _draw_steps(axes: Axes, points: Sequence[_Point]) -> None:
    places = range(len(points))
    below = [0.0] * len(points)
    for number, part in enumerate(_PARTS):
        heights = [point["phases_us"][part] / 1e3 for point in points]
        axes.bar(places, heights, bottom=below, color=SERIES[number], label=part)
        below = [low + height for low, height in zip(below, heights, strict=True)]
    known = [(at, p["predicted_us"] / 1e3) for at, p in enumerate(points) if p["predicted_us"]]
    axes.plot([at for at, _ in known], [ms for _, ms in known], "x", color=INK, label="predicted")
    axes.set_xticks(places, [f"{p['nodes']}\n{_short(p)}" for p in points])
    axes.set_xlabel("nodes, strategy")
    axes.set_ylabel("step (ms)")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _short(point: _Point) -> str:
    return str(point["strategy"]).upper()


def _step_table(points: Sequence[_Point]) -> Table:
    head = ("nodes", "strategy", *_PARTS, "step", "without communication", "exposed", "predicted")
    return Table(head, tuple(_step_row(point, points) for point in points))


def _step_row(point: _Point, points: Sequence[_Point]) -> tuple[str, ...]:
    parts = [_ms(point["phases_us"][part]) for part in _PARTS]
    times = [_ms(point[key]) for key in ("step_us", "alone_us", "exposed_us", "predicted_us")]
    return (f"{point['nodes']:,}", _name(point, points), *parts, *times)


def _ms(us: float | None) -> str:
    return "-" if us is None else f"{us / 1e3:,.1f} ms"
