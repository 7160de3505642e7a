"""The table of rails over time: what each sent, and what happened on it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rdmaprov.bandwidth.rates import format_gb_s
from rdmaprov.report.model import Plot, Table
from rdmaprov.words import quantity, some

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
    """Return the table, None if there are no samples, as in results of an older rdmaprov."""
    found = data.get("samples")
    if not found:
        return None
    words = f"Events: {_name_events(found['rails'])}"
    return Plot("samples", "Rails over time", None, words, f"{words}.", _table(found["rails"]))


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


def _table(rails: Sequence[_Data]) -> Table:
    """Return the rails with events, then the slowest."""
    ordered = sorted(rails, key=lambda each: (not each["events"], each["mean_gb_s"]))
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
