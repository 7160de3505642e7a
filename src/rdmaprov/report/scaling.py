"""The plot of bus bandwidth by the number of nodes, against what healthy fleets reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rdmaprov.bandwidth.rates import format_gb_s, format_percent, format_size
from rdmaprov.report.drawing import BAD, DUE, MARKERS, SERIES, draw_svg
from rdmaprov.report.model import Plot, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Points = Sequence[Mapping[str, Any]]
_HEAD = (
    "nodes",
    "sets",
    "across leaves",
    "latency",
    "busbw",
    "slowest set",
    "leaf by leaf",
    "healthy, at least",
    "of the first",
)


def plots(data: Mapping[str, Any]) -> Iterator[Plot]:
    """Yield the plot of each plane's curve; none if the stage scaling did not run."""
    scaling = data.get("scaling") or {"planes": ()}
    for number, plane in enumerate(scaling["planes"]):
        yield _plot(number, plane, scaling["algorithm"], scaling["bytes"])


def _plot(number: int, plane: Mapping[str, Any], algorithm: str, size: int) -> Plot:
    points, knee = plane["points"], plane["knee"]
    name = f"scaling-{number}"
    words = (
        f"Knee at {knee['nodes']} nodes, which rests on: {knee['cause']}. {knee['why']}"
        if knee
        else f"{_ends(points)}. No knee"
    )
    return Plot(
        name,
        f"Bus bandwidth by number of nodes, {plane['name']}",
        draw_svg(name, (9, 3.6), lambda axes: _draw(axes, points, knee)),
        words,
        f"{words}. All-reduces of {format_size(size)} by a {algorithm}, disjoint sets of nodes "
        "side by side. Across leaves: neighbours in the ring are under different leaves; leaf by "
        "leaf: the same nodes in the other order. Latency is that of 8 B.",
        _table(points),
    )


def _ends(points: _Points) -> str:
    return ", ".join(
        f"{each['nodes']} nodes {format_gb_s(each['busbw_gb_s'])}"
        for each in (points[0], points[-1])
    )


def _draw(axes: Axes, points: _Points, knee: Mapping[str, Any] | None) -> None:
    xs = [each["nodes"] for each in points]
    curves = (
        ("in_order_gb_s", "leaf by leaf", SERIES[1], "--"),
        ("busbw_gb_s", "across leaves", SERIES[0], "-"),
    )
    for number, (key, label, colour, dash) in enumerate(curves):
        ys = [each[key] for each in points]
        axes.plot(
            xs, ys, color=colour, linestyle=dash, marker=MARKERS[number], markersize=4, label=label
        )
    slowest = [each["least_gb_s"] for each in points]
    axes.plot(xs, slowest, color=SERIES[2], linestyle="none", marker="v", label="slowest set")
    if any(each["healthy_gb_s"] for each in points):
        least = [each["healthy_gb_s"] for each in points]
        axes.plot(xs, least, color=DUE, linestyle=":", label="healthy, at least")
    if knee:
        axes.axvline(knee["nodes"], color=BAD, linestyle="--", linewidth=1.5)
        axes.annotate(
            f"knee: {knee['nodes']} nodes",
            (knee["nodes"], 0),
            (4, 6),
            textcoords="offset points",
            color=BAD,
        )
    axes.set_xscale("log", base=2)
    axes.set_xticks(xs, minor=False)
    axes.xaxis.set_major_formatter(lambda count, _: f"{round(count)}")
    axes.minorticks_off()
    tops = [max(each["busbw_gb_s"], each["in_order_gb_s"], each["healthy_gb_s"]) for each in points]
    axes.set_ylim(0, max(tops) * 1.1 or 1)
    axes.set_xlabel("nodes")
    axes.set_ylabel("busbw (GB/s)")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _table(points: _Points) -> Table:
    first = points[0]["busbw_gb_s"]
    rows = tuple(
        (
            str(each["nodes"]),
            str(each["sets"]),
            "yes" if each["crosses_leaves"] else "no",
            f"{each['latency_us']:,.0f} µs",
            format_gb_s(each["busbw_gb_s"]),
            format_gb_s(each["least_gb_s"]),
            format_gb_s(each["in_order_gb_s"]),
            format_gb_s(each["healthy_gb_s"]) if each["healthy_gb_s"] else "-",
            format_percent(each["busbw_gb_s"] / first) if first else "-",
        )
        for each in points
    )
    return Table(_HEAD, rows)
