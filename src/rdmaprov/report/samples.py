"""The plot of rails over time: the worst node's, against the same rails of all nodes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rdmaprov.bandwidth.rates import format_gb_s
from rdmaprov.report.drawing import BAD, INK, MUTED, SERIES, draw_svg, short
from rdmaprov.report.model import Plot, Table
from rdmaprov.words import quantity, some

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_PANELS = 8
_COLUMNS = 2
_MOST_ROWS = 64  # of the table; results.json has all
_MOST_NAMED = 6
_KINDS = {
    "link": "link lost",
    "stopped": "stopped",
    "weak": "below the other rails",
    "pausing": "paused its switch",
}
_Data = Mapping[str, Any]


def plot(data: _Data) -> Plot | None:
    """Return the plot, None if there are no samples, as in results of an older rdmaprov."""
    found = data.get("samples")
    if not found:
        return None
    shown = found["shown"]
    rails = sorted(shown["rails"], key=_mean)[:_MOST_PANELS]
    rails.sort(key=lambda each: int(each["rail"]))
    events = {
        each["rail"]: each["events"] for each in found["rails"] if each["node"] == shown["node"]
    }
    words = f"Events: {_name_events(found['rails'])}"
    rows = -(-len(rails) // _COLUMNS)
    return Plot(
        "samples",
        "Rails over time",
        draw_svg("samples", (9, 1.1 + 1.35 * rows), lambda axes: _draw(axes, shown, rails, events)),
        words,
        f"What the rails of {shown['node']} sent, against the same rails of "
        f"{quantity(shown['nodes'], 'node')}: median, and 5th to 95th percentile. "
        f"A point is the mean of {shown['step_s']:g} s. {words}.",
        _table(found["rails"], shown["node"]),
    )


def _mean(rail: _Data) -> float:
    known: list[float] = [rate for rate in rail["gb_s"] if rate is not None]
    return sum(known) / max(1, len(known))


def _name_events(rails: Sequence[_Data]) -> str:
    found = [
        f"{rail['node']} rail {rail['rail']} {_name_event(event)}"
        for rail in rails
        for event in rail["events"]
    ]
    return some(found, _MOST_NAMED) or "none"


def _name_event(event: _Data) -> str:
    """Return what happened, and when."""
    when = (
        "" if event["from_s"] is None else f" at {event['from_s']:g} s for {event['seconds']:g} s"
    )
    times = f", {quantity(event['count'], 'time')}" if event["count"] > 1 else ""
    return f"{_KINDS[event['kind']]}{when}{times}"


def _draw(
    axes: "Axes", shown: _Data, rails: Sequence[_Data], events: Mapping[int, Sequence[_Data]]
) -> None:
    figure: Figure = axes.figure  # type: ignore[assignment] # a Figure, as draw_svg makes no others
    axes.remove()
    rows = -(-len(rails) // _COLUMNS)
    grid = figure.subplots(rows, _COLUMNS, sharex=True, sharey=True, squeeze=False)
    panels = list(grid.flat)
    for panel, rail in zip(panels, rails, strict=False):
        _draw_rail(panel, shown, rail, events.get(rail["rail"], ()))
    for panel in panels[len(rails) :]:
        panel.remove()
    rates = [r or 0.0 for rail in rails for name in ("gb_s", "high") for r in rail[name]]
    panels[0].set_ylim(0, 1.15 * max(rates, default=0.0) or 1)
    figure.supxlabel("seconds since the first sample", size=10)
    figure.supylabel("GB/s sent", size=10)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper right", ncols=3)


def _draw_rail(axes: "Axes", shown: _Data, rail: _Data, events: Sequence[_Data]) -> None:
    step = shown["step_s"]
    at = [step * (place + 0.5) for place in range(len(rail["gb_s"]))]
    low, median, high, own = (_numbers(rail[name]) for name in ("low", "median", "high", "gb_s"))
    axes.fill_between(at, low, high, color=SERIES[0], alpha=0.25, linewidth=0, label="all nodes")
    axes.plot(at, median, color=MUTED, linewidth=1, linestyle="--", label="median")
    axes.plot(at, own, color=SERIES[1], linewidth=1.4, label=short(shown["node"]))
    for event in events:
        if event["from_s"] is not None:
            end = event["from_s"] + max(event["seconds"], step)
            axes.axvspan(event["from_s"], end, color=BAD, alpha=0.25, linewidth=0)
    what = f": {', '.join(_KINDS[event['kind']] for event in events)}" if events else ""
    axes.set_title(f"rail {rail['rail']}{what}", color=BAD if events else INK)


def _numbers(rates: Sequence[float | None]) -> list[float]:
    return [math.nan if rate is None else rate for rate in rates]


def _table(rails: Sequence[_Data], worst: str) -> Table:
    """Return the rails with events, then those of the node that is drawn, then the slowest."""
    ordered = sorted(
        rails, key=lambda each: (not each["events"], each["node"] != worst, each["mean_gb_s"])
    )
    left = len(ordered) - _MOST_ROWS
    head = ("node", "rail", "mean", "lowest", "highest", "stopped", "paused", "counted", "events")
    rows = tuple(tuple(_cells(each)) for each in ordered[:_MOST_ROWS])
    return Table(head, rows, f"{left:,} more rails in results.json." if left > 0 else "")


def _cells(rail: _Data) -> Iterator[str]:
    yield rail["node"]
    yield str(rail["rail"])
    for name in ("mean_gb_s", "least_gb_s", "most_gb_s"):
        yield format_gb_s(rail[name])
    yield f"{rail['stopped_share']:.1%}" if rail["stopped_share"] else "-"
    yield "not counted" if rail["paused_share"] is None else f"{rail['paused_share']:.0%}"
    counted = (f"{name.replace('_', ' ')} {count:,}" for name, count in rail["counts"].items())
    yield ", ".join(counted) or "-"
    yield "; ".join(map(_name_event, rail["events"])) or "-"
