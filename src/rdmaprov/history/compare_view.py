"""A comparison of two runs as lines, as JSON, and as the content of a page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import rdmaprov
from rdmaprov.bandwidth.sizes import format_size
from rdmaprov.exit_codes import ExitCode
from rdmaprov.history.comparison import Comparison, Measured, RunDifference
from rdmaprov.history.digest import RunDigest
from rdmaprov.history.events import short
from rdmaprov.history.lines import amount
from rdmaprov.report.drawing import DASHES, MARKERS, SERIES, draw_svg
from rdmaprov.report.grid import grid
from rdmaprov.report.model import Cell, Changes, Grid, Issue, Plot, Table, Tone, View
from rdmaprov.runs.groups import label
from rdmaprov.terminal import Line
from rdmaprov.words import quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST = 40  # lines of a kind; our choice
_HEADLINES = {
    ExitCode.OK: "Not worse",
    ExitCode.FAILED: "Worse",
    ExitCode.UNKNOWN: "Unknown",
}
_WORSE, _NOT_WORSE = Cell(Tone.BAD, "", "worse"), Cell(Tone.GOOD, "", "not worse")
_SIGNS = ((Tone.BAD, "worse"), (Tone.GOOD, "not worse"))


def document(found: Comparison, took_s: float) -> dict[str, Any]:
    """Return the comparison as JSON; docs/history.md describes it."""
    code = found.exit_code()
    return {
        "schema": 1,
        "rdmaprov": rdmaprov.__version__,
        "verb": "compare",
        "site": found.second.site,
        "limit": None,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(took_s, 1),
        "verdict": code.name.lower(),
        "exit_code": int(code),
        "runs": [_head(found.first), _head(found.second)],
        "settings": [each.as_data() for each in found.settings],
        "states": [each.as_data() for each in found.states],
        "troubles": [each.as_data() for each in found.troubles],
        "measured": [each.as_data() for each in found.measured],
        "only_one": found.only_one,
        "nodes": {name: {} for name in found.second.states},
    }


def _head(run: RunDigest) -> dict[str, Any]:
    return {
        "name": run.name,
        "verb": run.verb,
        "site": run.site,
        "limit": run.limit or None,
        "started": run.started,
        "exit_code": run.exit_code,
    }


def lines(found: Comparison) -> Iterator[Line]:
    """Yield what a person reads of it."""
    yield Line(f"{_named(found.first)} → {_named(found.second)}")
    if found.first.site != found.second.site:
        yield Line(f"of different sites: {found.first.site} and {found.second.site}", "yellow")
    total = len({**found.first.states, **found.second.states})
    for title, differences in _sections(found):
        yield from _section(title, [_line(each, total) for each in differences])
    yield from _section("measurements", [*_values(found, total)])
    if found.only_one:
        text = f"{quantity(found.only_one, 'measurement')} of one run alone, not compared"
        yield Line(text)
    if found.unknown:
        names = label(found.unknown, total)
        yield Line(f"not compared: {names}: unknown in the second run", "yellow")
    elif found.exit_code() is ExitCode.UNKNOWN:
        yield Line("nothing can be compared: the runs have no node in common", "yellow")
    if found.exit_code() is ExitCode.OK:
        yield Line("nothing is worse in the second run")


def _named(run: RunDigest) -> str:
    codes = {int(code): code.name.lower() for code in ExitCode}
    return f"{run.name} ({codes.get(run.exit_code, 'unknown')})"


def _sections(found: Comparison) -> Iterator[tuple[str, list[RunDifference]]]:
    yield "versions, hardware and settings", found.settings
    yield "states", found.states
    yield "checks and findings", found.troubles


def _section(title: str, own: list[Line]) -> Iterator[Line]:
    if own:
        yield Line(title)
        yield from own[:_MOST]
    if len(own) > _MOST:
        yield Line(f"  and {len(own) - _MOST:,} more: see --json or --html")


def _line(each: RunDifference, total: int) -> Line:
    return Line(f"  {_text(each, total)}", "red" if each.is_worse else "")


def _text(each: RunDifference, total: int) -> str:
    where = f" on {label(each.nodes, total)}" if each.nodes else ""
    if each.what == "finding":
        return f"{'new' if each.now else 'gone'}: {each.now or each.was}{where}"
    return f"{each.what}: {short(each.was)} → {short(each.now)}{where}"


def _values(found: Comparison, total: int) -> Iterator[Line]:
    """Yield what differs, rails of several nodes on one line, and the largest size in any case."""
    grouped: dict[tuple[object, ...], list[Measured]] = defaultdict(list)
    for each in found.measured:
        own = each.series
        if each.differs:
            kind = own.stage, own.what, own.rail, own.bytes, each.share > 0, bool(own.node)
            grouped[kind].append(each)
        elif not own.node and own.bytes == _largest(found, own.what):
            grouped[own.stage, own.what, own.rail, own.bytes].append(each)
    for several in grouped.values():
        style = "red" if several[0].is_worse else ""
        yield Line(f"  {_value_text(several, total)}", style)


def _largest(found: Comparison, what: str) -> int:
    return max(each.series.bytes for each in found.measured if each.series.what == what)


def _value_text(several: list[Measured], total: int) -> str:
    middle = sorted(several, key=lambda each: each.share)[len(several) // 2]
    own = middle.series
    rail = f"rail {own.rail}: " if own.rail is not None else ""
    size = f", {format_size(own.bytes)}" if own.bytes else ""
    nodes = tuple(dict.fromkeys(each.series.node for each in several if each.series.node))
    where = f" on {label(nodes, total)}" if nodes else ""
    verdict = "worse: " if middle.is_worse else "better: " if middle.differs else "alike: "
    return (
        f"{verdict}{own.stage}: {rail}{own.what}{size}{where}: {amount(middle.was, own.unit)}"
        f" → {amount(middle.now, own.unit)} ({100 * middle.share:+.0f} %)"
    )


def view(found: Comparison) -> View:
    """Return the content of the page."""
    total = len({**found.first.states, **found.second.states})
    rows = [*_values(found, total)]
    bad = [_text(each, total) for _, own in _sections(found) for each in own if each.is_worse]
    bad += [line.text.strip() for line in rows if line.style]
    sections = [(title, [_text(each, total) for each in own]) for title, own in _sections(found)]
    sections.append(("measurements", [line.text.strip() for line in rows]))
    return View(
        headline=_HEADLINES[found.exit_code()],
        summary=f"{_named(found.first)} → {_named(found.second)}",
        grid=_grid(found),
        issues=tuple(
            Issue(Tone.BAD, "", text, "Look at what else differs below.", found.second.name, (), ())
            for text in bad
        ),
        changes=tuple(
            Changes(title, tuple((found.second.name, text) for text in own))
            for title, own in sections
            if own
        ),
        changes_title="What differs",
        plots=tuple(_plots(found)),
        files=(),
    )


def _grid(found: Comparison) -> Grid:
    worse: dict[str, set[str]] = defaultdict(set)
    for title, own in _sections(found):
        for each in own:
            for node in each.nodes if each.is_worse else ():
                worse[node].add(title)
    for value in found.measured:
        if value.is_worse:
            worse[value.series.node].add("measurements")
    columns = ["states", "checks and findings", "measurements"]
    cells = {
        name: tuple(_WORSE if title in worse[name] else _NOT_WORSE for title in columns)
        for name in found.second.states
    }
    return grid("kind", columns, cells, _SIGNS)


def _plots(found: Comparison) -> Iterator[Plot]:
    own = [each for each in found.measured if each.series.bytes]
    if own:
        head = ("measurement", "size", found.first.name, found.second.name, "change")
        words = f"{quantity(len(own), 'size')}: those of both runs"
        picture = draw_svg("sizes", (9, 3.8), lambda axes: _draw(axes, own))
        yield Plot("sizes", "By size", picture, words, words, Table(head, tuple(map(_row, own))))


def _draw(axes: Axes, own: list[Measured]) -> None:
    curves: dict[str, list[Measured]] = defaultdict(list)
    for each in own:
        curves[_what(each)].append(each)
    for number, (name, several) in enumerate(list(curves.items())[: len(SERIES)]):
        several.sort(key=lambda each: each.series.bytes)
        sizes = [each.series.bytes for each in several]
        colour, mark = SERIES[number], MARKERS[number]
        before, after = [each.was for each in several], [each.now for each in several]
        axes.plot(sizes, before, color=colour, linestyle=DASHES[1], label=f"{name}, first run")
        axes.plot(sizes, after, color=colour, marker=mark, markersize=4, label=f"{name}, second")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda size, _: format_size(round(size)))
    axes.set_xlabel("message size")
    axes.set_ylabel("busbw (GB/s)")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _what(each: Measured) -> str:
    rail = each.series.rail
    return f"rail {rail}: {each.series.what}" if rail is not None else each.series.what


def _row(each: Measured) -> tuple[str, ...]:
    own = each.series
    return (
        _what(each),
        format_size(own.bytes),
        amount(each.was, own.unit),
        amount(each.now, own.unit),
        f"{100 * each.share:+.1f} %",
    )
