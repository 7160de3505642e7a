"""A history as the content of a page."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rdmaprov.history import lines
from rdmaprov.history.answer import History
from rdmaprov.history.changes import SeriesChange, Track
from rdmaprov.history.from_accept import FLEET
from rdmaprov.report.drawing import DASHES, MARKERS, SERIES, draw_svg
from rdmaprov.report.grid import grid
from rdmaprov.report.model import Cell, Changes, Grid, Issue, Plot, Table, Tone, View
from rdmaprov.runs.groups import label
from rdmaprov.words import quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TONES = {
    "passed": Tone.GOOD, "unchanged": Tone.GOOD, "changed": Tone.GOOD, "pending": Tone.DUE,
    "failed": Tone.BAD,
}  # fmt: skip
_SIGNS = (
    (Tone.BAD, "failed in the newest run of the verb"),
    (Tone.UNKNOWN, "unknown, incomplete or unreachable"),
    (Tone.DUE, "pending"),
    (Tone.GOOD, "passed, or matches the site"),
)
_REMEDY = "Compare a run before it with one after it: rdmaprov compare {} {}"
_MOST_CURVES = 8


def view(found: History) -> View:
    """Return the content of the page."""
    total = len(found.nodes)
    bad = [each for each in found.changes if each.is_worse and each.holds]
    return View(
        headline=quantity(len(bad), "change") + " for the worse" if bad else "No lasting drop",
        summary=lines.summary(found),
        grid=_grid(found),
        issues=tuple(_issue(each, total, found) for each in reversed(bad)),
        changes=tuple(_changes(found, total)),
        changes_title="Over time",
        plots=tuple(_plots(found)),
        facts=(("runs", str(len(found.runs))), ("series", f"{found.tracks:,}")),
        notes=tuple(line.text for line in lines.left_out(found)),
        files=(),
    )


def _issue(each: SeriesChange, total: int, found: History) -> Issue:
    accepts = [run for run in found.runs if run.verb == each.run.verb]
    at = accepts.index(each.run)
    before = accepts[max(0, at - 1)].name
    return Issue(
        Tone.BAD,
        f"{each.series.stage}, since {each.run.name}",
        f"{lines.change_text(each, total)}; {lines.with_text(each, total)}",
        _REMEDY.format(before, accepts[-1].name),
        label(list(each.nodes), total) if each.nodes else "",
        each.nodes,
        (),
    )


def _grid(found: History) -> Grid:
    verbs = list(dict.fromkeys(run.verb for run in found.runs))
    cells = {name: tuple(_cell(own.get(verb)) for verb in verbs)
             for name, own in found.nodes.items()}  # fmt: skip
    return grid("verb", verbs, cells, _SIGNS)


def _cell(own: dict[str, object] | None) -> Cell:
    if own is None:
        return Cell(Tone.NONE, "", "no run has it")
    state = str(own["state"])
    return Cell(_TONES.get(state, Tone.UNKNOWN), "", f"{state} in {own['run']}")


def _changes(found: History, total: int) -> Iterator[Changes]:
    moved = [(each.run.name, lines.change_text(each, total)) for each in found.changes]
    events = [(each.run.name, each.text(total)) for each in found.events]
    seen = [(each.verb, lines.seen_text(each, total)) for each in found.troubles]
    for title, rows in (
        ("measurements", moved),
        ("versions, hardware and settings", events),
        ("first seen", seen),
    ):
        if rows:
            yield Changes(title, tuple(rows))


def _plots(found: History) -> Iterator[Plot]:
    shown = [track for track in found.fleet if track.series.bytes and len(track.values) > 1]
    if not shown:
        return
    kept = shown[:_MOST_CURVES]
    words = "; ".join(lines.trend_text(track) for track in kept)
    left = f"{len(shown) - len(kept)} more in the JSON." if len(shown) > len(kept) else ""
    yield Plot(
        "trend",
        "Bus bandwidth by run",
        draw_svg("trend", (9, 3.8), lambda axes: _draw(axes, kept)),
        words,
        f"{words}. Each by its largest message.",
        Table(("run", *map(_name, kept)), tuple(_rows(kept)), left),
    )


def _draw(axes: Axes, shown: list[Track]) -> None:
    names = list(dict.fromkeys(run.name for track in shown for run in track.runs))
    place = {name: number for number, name in enumerate(names)}
    for number, track in enumerate(shown):
        axes.plot(
            [place[run.name] for run in track.runs],
            track.values,
            color=SERIES[number % len(SERIES)],
            linestyle=DASHES[number // len(SERIES) % len(DASHES)],
            marker=MARKERS[number % len(MARKERS)],
            markersize=4,
            label=_name(track),
        )
    axes.set_ylim(0, 1.1 * max(max(track.values) for track in shown))
    axes.set_xlabel("run")
    axes.set_ylabel("busbw (GB/s)")
    if len(shown) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _name(track: Track) -> str:
    own = track.series
    return f"rail {own.rail}" if own.rail is not None else own.what.removeprefix(FLEET)


def _rows(shown: list[Track]) -> Iterator[tuple[str, ...]]:
    by_run: dict[str, dict[int, float]] = {}
    for number, track in enumerate(shown):
        for run, value in zip(track.runs, track.values, strict=True):
            by_run.setdefault(run.name, {})[number] = value
    for name, own in by_run.items():
        cells = (lines.amount(own[n], "GB/s") if n in own else "-" for n in range(len(shown)))
        yield (name, *cells)
    middles = (lines.amount(statistics.median(track.values), "GB/s") for track in shown)
    yield ("median", *middles)
