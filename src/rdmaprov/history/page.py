"""A history as the content of a page."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rdmaprov.bandwidth.sizes import format_size
from rdmaprov.history import lines
from rdmaprov.history.answer import History
from rdmaprov.history.changes import SeriesChange, Track
from rdmaprov.history.from_accept import FLEET
from rdmaprov.report.drawing import MARKERS, SERIES, draw_svg
from rdmaprov.report.grid import grid
from rdmaprov.report.model import Cell, Changes, Grid, Issue, Plot, Table, Tone, View
from rdmaprov.runs.groups import fold_names, label
from rdmaprov.words import quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TONES = {
    "passed": Tone.GOOD,
    "unchanged": Tone.GOOD,
    "changed": Tone.GOOD,
    "pending": Tone.DUE,
    "failed": Tone.BAD,
}
_SIGNS = (
    (Tone.BAD, "failed in the newest run of the verb"),
    (Tone.UNKNOWN, "unknown, incomplete or unreachable"),
    (Tone.DUE, "pending"),
    (Tone.GOOD, "passed, or matches the site"),
)
_REMEDY = "Compare a run before it with one after it: rdmaprov compare {} {}"
_MOST_CURVES = 8
_Curves = Mapping[str, Mapping[str, float]]  # name, run


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
    cells = {
        name: tuple(_cell(own.get(verb)) for verb in verbs) for name, own in found.nodes.items()
    }
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
    if found.moved:
        curves = {_rail_name(own): _relative(own) for own in _by_rail(found.moved)[:_MOST_CURVES]}
        words = "; ".join(curves)
        note = f"{words}. Of several nodes, the median; 100 % is the median of the first five runs."
        yield _plot("worse", "What became worse", curves, "share of the first runs (%)", note)
    shown = [track for track in found.fleet if track.series.bytes and len(track.values) > 1]
    if shown:
        kept = shown[:_MOST_CURVES]
        curves = {_name(own): _by_run([own]) for own in kept}
        words = "; ".join(lines.trend_text(track) for track in kept)
        note = f"{words}. Each by its largest message."
        yield _plot("trend", "Bus bandwidth by run", curves, "busbw (GB/s)", note)


def _by_rail(tracks: list[Track]) -> list[list[Track]]:
    """Return series that differ in the node alone, together."""
    kinds: dict[tuple[object, ...], list[Track]] = {}
    for track in tracks:
        own = track.series
        kinds.setdefault((own.stage, own.what, own.rail, own.bytes, own.scope), []).append(track)
    return list(kinds.values())


def _by_run(tracks: list[Track]) -> dict[str, float]:
    """Return the median of some series in each run."""
    values: dict[str, list[float]] = {}
    for track in tracks:
        for run, value in zip(track.runs, track.values, strict=True):
            values.setdefault(run.name, []).append(value)
    return {name: statistics.median(own) for name, own in values.items()}


def _relative(tracks: list[Track]) -> dict[str, float]:
    """Return the same in percent of the median of the first five runs."""
    values = _by_run(tracks)
    first = statistics.median(list(values.values())[:5]) or 1.0
    return {name: 100 * value / first for name, value in values.items()}


def _plot(name: str, title: str, curves: _Curves, unit: str, note: str) -> Plot:
    """Return a plot by run; the same runs are at the same place in all curves."""
    names = sorted({run for own in curves.values() for run in own})
    rows = [(run, *(_cell_text(own.get(run)) for own in curves.values())) for run in names]
    picture = draw_svg(name, (9, 3.8), lambda axes: _draw(axes, curves, names, unit))
    return Plot(name, title, picture, note, note, Table(("run", *curves), tuple(rows)))


def _cell_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _draw(axes: Axes, curves: _Curves, names: list[str], unit: str) -> None:
    place = {name: number for number, name in enumerate(names, start=1)}
    for number, (name, own) in enumerate(curves.items()):
        axes.plot(
            [place[run] for run in own],
            list(own.values()),
            color=SERIES[number % len(SERIES)],
            marker=MARKERS[number % len(MARKERS)],
            markersize=4,
            label=name,
        )
    axes.set_ylim(0, 1.1 * max(max(own.values()) for own in curves.values()))
    axes.set_xlabel("run")
    axes.set_ylabel(unit)
    if len(curves) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _rail_name(tracks: list[Track]) -> str:
    own = tracks[0].series
    rail = f"rail {own.rail}: " if own.rail is not None else ""
    nodes = fold_names(track.series.node for track in tracks if track.series.node)
    size = f", {format_size(own.bytes)}" if own.bytes else ""
    return f"{own.stage}: {rail}{own.what}{size}{f' on {nodes}' if nodes else ''}"


def _name(track: Track) -> str:
    own = track.series
    return f"rail {own.rail}" if own.rail is not None else own.what.removeprefix(FLEET)
