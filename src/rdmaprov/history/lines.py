"""A history as lines for the terminal."""

from collections.abc import Iterator
from datetime import datetime

from rdmaprov.bandwidth.rates import format_gb_s, format_size
from rdmaprov.history.answer import History
from rdmaprov.history.changes import NEAR, SeriesChange, Track
from rdmaprov.history.first_seen import Seen
from rdmaprov.history.shift import trend
from rdmaprov.history.site_runs import SiteRun
from rdmaprov.runs.groups import fold_names, label
from rdmaprov.terminal import Line
from rdmaprov.words import quantity, some

_MOST = 20  # of a kind; our choice: --json has all
_BAD, _ODD = "red", "yellow"


def history_lines(found: History) -> Iterator[Line]:
    """Yield what a person reads of a history."""
    yield Line(summary(found))
    yield from _certificate(found)
    total = len(found.nodes)
    yield from _limited([line for each in found.changes for line in _change(each, total)], "")
    if found.events:
        yield Line("versions, hardware and settings that changed")
        events = [Line(f"  {each.run.name}: {each.text(total)}") for each in found.events]
        yield from _limited(events[::-1], "older")
    if found.troubles:
        yield Line("first seen")
        troubles = [
            Line(f"  {seen_text(each, total)}", _ODD if each.is_there else "")
            for each in found.troubles
        ]
        yield from _limited(troubles, "")
    if found.fleet:
        yield Line("trend of all nodes together")
        yield from _limited([Line(f"  {trend_text(each)}") for each in found.fleet], "")
    yield from left_out(found)


def summary(found: History) -> str:
    """Return how many runs there are, from when to when, and the newest of each verb."""
    verbs: dict[str, int] = {}
    for run in found.runs:
        verbs[run.verb] = verbs.get(run.verb, 0) + 1
    counts = ", ".join(f"{count} {verb}" for verb, count in verbs.items())
    first, last = (f"{day(run)}" for run in (found.runs[0], found.runs[-1]))
    newest = {run.verb: f"{run.verb} {run.verdict}" for run in found.runs}
    return (
        f"{found.site}: {quantity(len(found.runs), 'run')} from {first} to {last} ({counts});"
        f" newest: {', '.join(newest.values())}"
    )


def _certificate(found: History) -> Iterator[Line]:
    """Yield until when the newest certificate is valid."""
    until = found.newest.valid_until
    if until is not None:
        text = f"{datetime.fromtimestamp(until).astimezone():%Y-%m-%d %H:%M:%S %Z}"
        expired = until < found.made
        word = "expired on" if expired else "valid until"
        yield Line(f"newest certificate: {word} {text}", _ODD if expired else "")


def day(run: SiteRun) -> str:
    """Return the local day on which a run began."""
    return f"{datetime.fromtimestamp(run.started).astimezone():%Y-%m-%d}"


def _limited(lines: list[Line], which: str) -> Iterator[Line]:
    yield from lines[:_MOST]
    if len(lines) > _MOST:
        yield Line(f"  and {len(lines) - _MOST:,} {which or 'more'}: see --json")


def _change(each: SeriesChange, total: int) -> Iterator[Line]:
    bad = each.is_worse and each.holds
    yield Line(change_text(each, total), _BAD if bad else "")
    yield Line(f"  {with_text(each, total)}")


def change_text(each: SeriesChange, total: int) -> str:
    """Return what changed, by how much, since when and where."""
    own = each.series
    shift = each.shift
    way = "little by little from" if shift.is_drift else "at once in"
    where = f" on {label(each.nodes, total)}" if each.nodes else ""
    rail = f"rail {own.rail}: " if own.rail is not None else ""
    state = "worse" if each.is_worse else "better"
    past = "" if each.holds else "; no longer so"
    return (
        f"{state}: {own.stage}: {rail}{own.what}{_sizes(each)}{where}: "
        f"{amount(shift.before, own.unit)} → {amount(shift.after, own.unit)}"
        f" ({100 * shift.share:+.0f} %), {way} {each.run.name}"
        f" (run {each.number} of {each.of}){past}"
    )


def with_text(each: SeriesChange, total: int) -> str:
    """Return what changed at the same time, which need not be the cause."""
    if not each.events:
        return f"changed within {NEAR} runs of it: nothing that runs record"
    texts = [f"{event.text(total)} ({event.run.name})" for event in each.events]
    return f"changed within {NEAR} runs of it: {some(texts, 4, '; ')}"


def _sizes(each: SeriesChange) -> str:
    if not each.sizes:
        return ""
    shown = format_size(each.sizes[-1])
    return f", {shown}" if len(each.sizes) == 1 else f", {shown} and {len(each.sizes) - 1} smaller"


def amount(value: float, unit: str) -> str:
    """Return a value with its unit."""
    return format_gb_s(value) if unit == "GB/s" else f"{value:.3g} µs"


def seen_text(each: Seen, total: int) -> str:
    """Return a trouble: since when, how often, whether it is there, and where."""
    where = f" on {label(sorted(each.nodes), total)}" if each.nodes else ""
    rails = sorted(each.rails)
    folded = fold_names(map(str, rails)).strip("[]")
    on = f", {'rail' if len(rails) == 1 else 'rails'} {folded}" if rails else ""
    state = "there now" if each.is_there else f"gone after {each.newest.name}"
    kind = "" if each.proven or each.text.startswith("unknown: ") else "unknown: "
    return (
        f"{each.first.name}: {kind}{each.text}{where}{on}"
        f" (in {each.runs} of {quantity(each.of, 'run')} since, {state})"
    )


def trend_text(track: Track) -> str:
    """Return the newest value of a series and its slope."""
    own = track.series
    rail = f"rail {own.rail}: " if own.rail is not None else ""
    size = f", {format_size(own.bytes)}" if own.bytes else ""
    slope = 100 * trend(track.values)
    return (
        f"{own.stage}: {rail}{own.what}{size}: {amount(track.values[-1], own.unit)},"
        f" {slope:+.1f} % a run over {quantity(len(track.values), 'run')} ({own.scope})"
    )


def left_out(found: History) -> Iterator[Line]:
    """Yield the runs that were left out, and why."""
    for each in found.damaged[:_MOST]:
        yield Line(f"left out: {each.run}: {each.why}", _ODD)
    if found.killed:
        names = some((each.run for each in found.killed), 3)
        yield Line(f"left out, without results (killed, or still running): {names}")
