"""A comparison of two runs as lines and as JSON."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import rdmaprov
from rdmaprov.bandwidth.rates import format_size
from rdmaprov.exit_codes import ExitCode
from rdmaprov.history.compare import Comparison, Measured, RunDifference
from rdmaprov.history.digest import RunDigest
from rdmaprov.history.events import short
from rdmaprov.history.lines import amount
from rdmaprov.runs.groups import label
from rdmaprov.terminal import Line
from rdmaprov.words import quantity

_MOST = 40  # lines of a kind; our choice


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
        yield Line(f"  and {len(own) - _MOST:,} more: see --json")


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
