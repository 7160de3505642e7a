"""The page of `validate`."""

from collections.abc import Iterator, Mapping
from typing import Any

from rdmaprov.report.issues import Message, Scope, grid, group_messages, group_skips
from rdmaprov.report.model import Cell, Grid, Tone, View
from rdmaprov.runs.groups import count_states, subject
from rdmaprov.runs.last_word import left_out
from rdmaprov.validate.verdict import split_remedy
from rdmaprov.words import quantity, some

_HEADLINES = {
    "ok": "Passed",
    "failed": "Failed",
    "unknown": "Unknown",
    "interrupted": "Interrupted",
}
_TONES = {"failed": Tone.BAD, "error": Tone.UNKNOWN}
_STATES = {"failed": "failed", "unknown": "unknown", "passed": "passed"}
_OUTCOMES = {"error": "unknown", "skipped": "skipped (not verified)"}
_SIGNS = (
    (Tone.BAD, "failed (n/m: n of m checks)"),
    (Tone.UNKNOWN, "unknown"),
    (Tone.IDLE, "skipped (not verified)"),
    (Tone.GOOD, "passed"),
)
_NOTHING = Cell(Tone.NONE, "", "no check")
_NOT_JUDGED = Cell(Tone.UNKNOWN, "", "no check ran")


def view(data: Mapping[str, Any]) -> View:
    """Return the content of the page."""
    site = Scope(data["site"], data["limit"], data["nodes"])
    return View(
        headline=_HEADLINES[data["verdict"]],
        summary=_summary(data),
        grid=_grid(data),
        issues=group_messages(_messages(data["checks"], site), site),
        skips=group_skips(
            (
                Message(Tone.IDLE, subject(each["test"]), each["node"], each["message"], "")
                for each in data["checks"]
                if each["outcome"] == "skipped"
            ),
            site,
        ),
        files=("results.json", "logs/pytest.log"),
    )


def _summary(data: Mapping[str, Any]) -> str:
    states = {name: node["state"] for name, node in data["nodes"].items()}
    nodes = count_states(states, _STATES, ("failed", "unknown"))
    checks = quantity(sum(data["counts"].values()), "check")
    return f"{_left_out(data)}{nodes} · {checks}: {_outcomes(data['counts'])}"


def _left_out(data: Mapping[str, Any]) -> str:
    """Return what a run did not ask; empty if it asked everything, or is of 0.1.0."""
    lacks = left_out(data)
    if not lacks and all(node.get("complete", True) for node in data["nodes"].values()):
        return ""
    return f"not all checks were asked{f' ({some(lacks, 3)})' if lacks else ''} · "


def _outcomes(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {_OUTCOMES.get(name, name)}" for name, n in counts.items() if n)


def _messages(checks: list[dict[str, Any]], site: Scope) -> Iterator[Message]:
    for each in checks:
        if each["outcome"] in _TONES:
            text, remedy = split_remedy(each["message"])
            nodes = [each["node"]] if each["node"] else []
            again = site.command("validate", nodes or list(site.nodes))
            remedy = remedy or f"Fix the cause, then, from the controller: {again}"
            yield Message(_TONES[each["outcome"]], _where(each), each["node"], text, remedy)


def _where(check: Mapping[str, Any]) -> str:
    """Return the test; of an unreachable node's, the first, and how many more there are."""
    tests = dict.fromkeys(
        name.partition("[")[0].rpartition("/")[2]
        for name in (check["test"], *check.get("also", ()))
    )
    return some(tests, 1)


def _grid(data: Mapping[str, Any]) -> Grid:
    by_node = {name: node["subjects"] for name, node in data["nodes"].items()}
    columns = sorted({key for own in (*by_node.values(), data["fleet"]) for key in own})
    cells = {name: _cells(own, columns) for name, own in by_node.items()}
    together = _cells(data["fleet"], columns) if data["fleet"] else ()
    return grid("subject", columns, cells, _SIGNS, together)


def _cells(own: Mapping[str, Mapping[str, int]], columns: list[str]) -> tuple[Cell, ...]:
    missing = _NOTHING if own else _NOT_JUDGED
    return tuple(_cell(own[key]) if key in own else missing for key in columns)


def _cell(counts: Mapping[str, int]) -> Cell:
    total = sum(counts.values())
    words = _outcomes(counts)
    for outcome, tone in _TONES.items():
        if counts.get(outcome):
            return Cell(tone, f"{counts[outcome]}/{total}", words)
    if counts.get("passed"):
        return Cell(Tone.GOOD, str(counts["passed"]), words)
    return Cell(Tone.IDLE, str(total), words)
