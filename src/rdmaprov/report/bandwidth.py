"""The plot of bus bandwidth by message size, against floor and ceiling."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rdmaprov.bandwidth.rates import format_gb_s, format_size
from rdmaprov.report.drawing import BAD, DASHES, DUE, MARKERS, SERIES, draw_svg
from rdmaprov.report.model import Plot, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Curves = Mapping[str, Mapping[int, Mapping[str, float]]]  # plane, bytes, row


def plot(data: Mapping[str, Any]) -> Plot | None:
    """Return the plot of all planes, None if nothing was measured."""
    curves: _Curves = {
        plane["name"]: {row["bytes"]: row for row in plane["rows"] if row["in_place"]}
        for plane in data["planes"]
    }
    if not any(curves.values()):
        return None
    floor = data["floor"]
    limits = {"ceiling": floor["ceiling_gb_s"], "floor": floor["floor_gb_s"]} if floor else {}
    peaks = [
        f"{name}: peak {format_gb_s(max(row['busbw_gb_s'] for row in rows.values()))}"
        for name, rows in curves.items()
        if rows
    ]
    against = [f"{what} {format_gb_s(rate)}" for what, rate in limits.items()]
    words = "; ".join([*peaks, *against])
    return Plot(
        "bandwidth",
        "Bus bandwidth by message size",
        draw_svg("bandwidth", (9, 3.8), lambda axes: _draw(axes, curves, limits)),
        words,
        f"{words}. busbw as nccl-tests defines it: in place, median time of the slowest rank."
        + ("" if floor else " There is no floor: gloo does not measure RDMA."),
        _table(curves),
    )


def _draw(axes: "Axes", curves: _Curves, limits: Mapping[str, float]) -> None:
    for number, (name, rows) in enumerate(curves.items()):
        xs = sorted(rows)
        axes.plot(
            xs,
            [rows[size]["busbw_gb_s"] for size in xs],
            color=SERIES[number % len(SERIES)],
            linestyle=DASHES[number // len(SERIES) % len(DASHES)],
            marker=MARKERS[number % len(MARKERS)],
            markersize=4,
            label=name,
        )
    for what, rate in limits.items():
        colour, dash = (BAD, "--") if what == "floor" else (DUE, ":")
        axes.axhline(rate, color=colour, linestyle=dash, linewidth=1.5)
        below = what == "floor"
        axes.annotate(
            f"{what} {format_gb_s(rate)}",
            (0, rate),
            (4, -4 if below else 4),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="top" if below else "bottom",
            color=colour,
        )
    sizes = sorted({size for rows in curves.values() for size in rows})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes[:: -(-len(sizes) // 10)], minor=False)
    axes.xaxis.set_major_formatter(lambda size, _: format_size(round(size)))
    axes.minorticks_off()
    top = max(
        [*limits.values(), *(r["busbw_gb_s"] for own in curves.values() for r in own.values())]
    )
    axes.set_ylim(0, top * 1.1)
    axes.set_xlabel("message size")
    axes.set_ylabel("busbw (GB/s)")
    if len(curves) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _table(curves: _Curves) -> Table:
    sizes = sorted({size for rows in curves.values() for size in rows})
    head = ["size"]
    for name in curves:
        head += [f"{name}: busbw", f"{name}: median"]
    rows = []
    for size in sizes:
        cells = [format_size(size)]
        for own in curves.values():
            row = own.get(size)
            cells += (
                [format_gb_s(row["busbw_gb_s"]), f"{row['median_us']:,.0f} µs"]
                if row
                else ["-"] * 2
            )
        rows.append(tuple(cells))
    return Table(tuple(head), tuple(rows))
