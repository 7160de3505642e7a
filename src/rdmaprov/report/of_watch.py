"""The page of `watch`."""

from collections.abc import Iterator, Mapping
from typing import Any

from rdmaprov.report.issues import Message, Scope, grid, group_messages
from rdmaprov.report.model import Cell, Grid, Plot, Table, Tone, View
from rdmaprov.runs.groups import count_states
from rdmaprov.watch.verdict import TITLES, UNKNOWN, VICTIM
from rdmaprov.words import duration, quantity

_HEADLINES = {"ok": "Nothing is wrong", "failed": "Something is wrong", "unknown": "Unknown"}
_STATES = {
    "failed": "with a fault",
    "victim": "only a victim",
    "unknown": "unknown",
    "ok": "without a fault",
}
_SIGNS = (
    (Tone.BAD, "at fault"),
    (Tone.UNKNOWN, "unknown"),
    (Tone.IDLE, "suffers from another rail's fault"),
    (Tone.GOOD, "nothing is wrong"),
)
_TONES = {VICTIM: Tone.IDLE, UNKNOWN: Tone.UNKNOWN}
_WORST = (Tone.BAD, Tone.UNKNOWN, Tone.IDLE)
_MOST_ROWS = 256
_HEAD = (
    "node",
    "rail",
    "sent GB",
    "received GB",
    "marked for",
    "paused for",
    "pausing for",
    "no link for",
)
_STATES_OF_RAILS = ("congested", "paused", "pausing", "down")


def view(data: Mapping[str, Any]) -> View:
    """Return the content of the page."""
    site = Scope(data["site"], data["limit"], data["nodes"])
    states = {name: node["state"] for name, node in data["nodes"].items()}
    return View(
        headline=_HEADLINES[data["verdict"]],
        summary=f"{count_states(states, _STATES, ('failed', 'victim', 'unknown'))} · "
        f"{quantity(len(data['findings']), 'finding')}",
        grid=_grid(data),
        issues=group_messages(_messages(data), site),
        plots=tuple(_plots(data)),
        facts=tuple(_facts(data)),
        files=("results.json", "logs/watch.log"),
    )


def _messages(data: Mapping[str, Any]) -> Iterator[Message]:
    for each in data["findings"]:
        kind = each["kind"]
        where = TITLES[kind] if each["rail"] is None else f"rail {each['rail']}: {TITLES[kind]}"
        leaf = f"leaf {each['leaf']}: " if each["leaf"] else ""
        for name in each["nodes"] or [""]:
            text = f"{leaf}{each['what']}"
            yield Message(_TONES.get(kind, Tone.BAD), where, name, text, each["remedy"])


def _grid(data: Mapping[str, Any]) -> Grid:
    most = max((len(node["rails"]) for node in data["nodes"].values()), default=0)
    tones: dict[tuple[str, int | None], list[tuple[Tone, str]]] = {}
    for each in data["findings"]:
        found = _TONES.get(each["kind"], Tone.BAD), TITLES[each["kind"]]
        for name in each["nodes"]:
            tones.setdefault((name, each["rail"]), []).append(found)
    cells = {
        name: tuple(
            _cell([*tones.get((name, rail), ()), *tones.get((name, None), ())])
            if rail < len(node["rails"])
            else Cell(Tone.NONE, "", "no such rail")
            for rail in range(most)
        )
        for name, node in data["nodes"].items()
    }
    return grid("rail", [f"rail {rail}" for rail in range(most)], cells, _SIGNS)


def _cell(found: list[tuple[Tone, str]]) -> Cell:
    words = ", ".join(dict.fromkeys(title for _, title in found))
    for tone in _WORST:
        if any(each is tone for each, _ in found):
            return Cell(tone, "", words)
    return Cell(Tone.GOOD, "", "nothing is wrong")


def _plots(data: Mapping[str, Any]) -> Iterator[Plot]:
    """Yield what the rails were in, if any was in a bad state: the longest first."""
    rails = [
        (sum(rail["states_s"].get(state, 0) for state in _STATES_OF_RAILS), name, number, rail)
        for name, node in data["nodes"].items()
        for number, rail in enumerate(node["rails"])
    ]
    bad = sorted((row for row in rails if row[0]), key=lambda row: row[0], reverse=True)
    if not bad:
        return
    rows = tuple(_row(name, number, rail) for _, name, number, rail in bad[:_MOST_ROWS])
    left = len(bad) - len(rows)
    more = f"{quantity(left, 'rail')} with less are in results.json" if left else ""
    _, worst, rail, _ = bad[0]
    words = f"Of {len(bad)} rails, {worst} rail {rail} was in a bad state for longest"
    yield Plot(
        "states",
        "What the rails were in",
        None,
        words,
        f"{words}. Seconds in which it was beyond the threshold of docs/watch.md.",
        Table(_HEAD, rows, more),
    )


def _row(name: str, number: int, rail: Mapping[str, Any]) -> tuple[str, ...]:
    seconds = (rail["states_s"].get(state, 0) for state in _STATES_OF_RAILS)
    return (
        name,
        str(number),
        f"{rail['sent_bytes'] / 1e9:,.1f}",
        f"{rail['received_bytes'] / 1e9:,.1f}",
        *(duration(each) if each else "" for each in seconds),
    )


def _facts(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    length = duration(data["watched_s"]) if data["watched_s"] else "no time: no node was read"
    yield "watched for", length + (" (ended early)" * data["ended_early"])
    yield "nodes with traffic", f"{data['busy_nodes']:,} of {len(data['nodes']):,}"
    shares = [node["cpu_share"] for node in data["nodes"].values() if node["cpu_share"] is not None]
    if shares:
        yield "cost on a node", f"at most {max(shares):.2%} of one core"
