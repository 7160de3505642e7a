"""The page of `tune`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rdmaprov.bandwidth.rates import format_gb_s
from rdmaprov.bandwidth.sizes import format_size
from rdmaprov.report.drawing import BAD, LINES, MARKERS, SERIES, draw_svg
from rdmaprov.report.grid import grid
from rdmaprov.report.model import Cell, Grid, Plot, Table, Tone, View
from rdmaprov.tuner.settings import DEFAULTS
from rdmaprov.words import quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Tests = Sequence[Mapping[str, Any]]
_HEAD = ("setting", "size", "gain", "at least", "blocks", "believed")
_SIGNS = ((Tone.GOOD, "took part in all jobs"), (Tone.IDLE, "nothing was measured"))
_MOST_DRAWN = 24


def view(data: Mapping[str, Any]) -> View:
    """Return the content of the page."""
    return View(
        headline=_headline(data),
        summary=f"{quantity(len(data['nodes']), 'node')} · {quantity(data['jobs'], 'job')} · "
        f"{len(data['of_sizes']) + len(data['of_fleet'])} of "
        f"{quantity(len(data['tests']), 'gain')} believed",
        grid=_grid(data),
        plots=tuple(_plots(data)),
        facts=tuple(_facts(data)),
        notes=tuple(data["said"]),
        files=("results.json", "logs/trials.log"),
    )


def _headline(data: Mapping[str, Any]) -> str:
    if data["verdict"] == "interrupted":
        return "Interrupted"
    if data["verdict"] != "ok":
        return "Not measured"
    return "Leave the defaults" if data["leave_defaults"] else "Better settings"


def _grid(data: Mapping[str, Any]) -> Grid:
    cell = Cell(Tone.GOOD, "", "took part") if data["jobs"] else Cell(Tone.IDLE, "", "not measured")
    return grid("jobs", ["jobs"], dict.fromkeys(data["nodes"], (cell,)), _SIGNS)


def _facts(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "backend", data["backend"] or "not chosen"
    if data["sizes"]:
        yield "sizes", ", ".join(format_size(size) for size in data["sizes"])
    for setting, why in data["dropped"].items():
        yield f"dropped: {setting}", why


def _plots(data: Mapping[str, Any]) -> Iterator[Plot]:
    if data["tests"]:
        yield _gains(data["tests"])
    if any(t["setting"] == DEFAULTS.name and t.get("gb_s") for t in data["trials"]):
        yield _defaults(data["trials"])


def _gains(tests: _Tests) -> Plot:
    """Return what was compared: the decided gains with their bounds, then the others."""
    decided = [each for each in tests if each["at_least"] is not None]
    believed = [each for each in decided if each["believed"]]
    words = (
        f"{len(believed)} of {quantity(len(decided), 'gain')} decided on are believed"
        if decided
        else "No setting seemed better by 3 %, so none was decided on"
    )
    return Plot(
        "gains",
        "What was compared with NCCL's defaults",
        draw_svg("gains", (9, 1.2 + 0.3 * min(len(tests), _MOST_DRAWN)), lambda a: _bars(a, tests)),
        words,
        f"{words}. A gain is the bus bandwidth against that of the defaults in the same blocks. "
        "The line ends at what it is at least; a gain counts if that is above zero. Settings "
        "without a line were measured in the first blocks alone, at the size where they gain most.",
        Table(_HEAD, tuple(_row(each) for each in tests)),
    )


def _row(each: Mapping[str, Any]) -> tuple[str, ...]:
    least = each["at_least"]
    return (
        each["setting"],
        format_size(each["bytes"]),
        f"{100 * each['gain']:+.1f} %",
        "-" if least is None else f"{100 * least:+.1f} %",
        str(each["blocks"]),
        "yes" if each["believed"] else "no" if least is not None else "not decided on",
    )


def _bars(axes: Axes, tests: _Tests) -> None:
    shown = list(tests[:_MOST_DRAWN])[::-1]
    names = [f"{each['setting']}, {format_size(each['bytes'])}" for each in shown]
    for place, each in enumerate(shown):
        gain, least = 100 * each["gain"], each["at_least"]
        colour = SERIES[0] if each["believed"] else SERIES[1]
        axes.plot(gain, place, color=colour, marker=MARKERS[0 if each["believed"] else 1])
        if least is not None:
            axes.plot([100 * least, gain], [place, place], color=colour)
    axes.axvline(0, color=LINES, linewidth=1)
    axes.axvline(3, color=BAD, linestyle=":", linewidth=1)
    axes.set_yticks(range(len(shown)), names)
    axes.set_ylim(-0.7, len(shown) - 0.3)
    axes.set_xlabel("gain (%); dotted: 3 %, the least that is worth a setting")


def _defaults(trials: _Tests) -> Plot:
    """Return what NCCL's defaults reached in each block: the noise that gains are judged by."""
    own = [t for t in trials if t["setting"] == DEFAULTS.name and t.get("gb_s")]
    sizes = sorted({int(size) for trial in own for size in trial["gb_s"]})
    ranges = {
        size: sorted(t["gb_s"][str(size)] for t in own if str(size) in t["gb_s"]) for size in sizes
    }
    words = f"{quantity(len(own), 'job')} of NCCL's defaults"
    rows = tuple(
        (format_size(size), *(format_gb_s(value) for value in (v[0], v[len(v) // 2], v[-1])))
        for size, v in ranges.items()
    )
    return Plot(
        "defaults",
        "NCCL's defaults by message size",
        draw_svg("defaults", (9, 3.2), lambda axes: _draw_defaults(axes, ranges)),
        words,
        f"{words}: least, median and most. What drifts over hours cancels out in a gain.",
        Table(("size", "least", "median", "most"), rows),
    )


def _draw_defaults(axes: Axes, ranges: Mapping[int, list[float]]) -> None:
    xs = list(ranges)
    axes.fill_between(
        xs,
        [v[0] for v in ranges.values()],
        [v[-1] for v in ranges.values()],
        color=SERIES[0],
        alpha=0.2,
        linewidth=0,
    )
    axes.plot(xs, [v[len(v) // 2] for v in ranges.values()], color=SERIES[0], marker=MARKERS[0])
    axes.set_xscale("log", base=2)
    axes.set_xticks(xs, minor=False)
    axes.xaxis.set_major_formatter(lambda size, _: format_size(round(size)))
    axes.minorticks_off()
    axes.set_ylim(0, None)
    axes.set_xlabel("message size")
    axes.set_ylabel("busbw (GB/s)")
