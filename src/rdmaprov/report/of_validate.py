"""What the page of `validate` shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rdmaprov.report.grid import grid
from rdmaprov.report.model import Cell, Grid, Tone, View
from rdmaprov.report.troubles import Said, Site, alike, skipped
from rdmaprov.report.words import counted, nodes_by_state
from rdmaprov.runs.groups import subject
from rdmaprov.validate.verdict import split_remedy

_HEADLINES = {
    "ok": "Passed",
    "failed": "Failed",
    "unknown": "Could not tell",
    "interrupted": "Interrupted",
}
_TONES = {"failed": Tone.BAD, "error": Tone.UNKNOWN}
_STATES = {"failed": "failed", "unknown": "unknown", "passed": "passed"}
_SIGNS = (
    (Tone.BAD, "failed"),
    (Tone.UNKNOWN, "could not tell"),
    (Tone.IDLE, "skipped: not proven"),
    (Tone.GOOD, "passed"),
)
_NOTHING = Cell(Tone.NONE, "", "nothing to judge")
_NOT_JUDGED = Cell(Tone.UNKNOWN, "", "nothing was judged")


def view(data: Mapping[str, Any]) -> View:
    """Return what results.json of validate says."""
    site = Site(data["site"], data["limit"], data["nodes"])
    counts = data["counts"]
    checks = counted(sum(counts.values()), "check")
    return View(
        headline=_HEADLINES[data["verdict"]],
        summary=f"{nodes_by_state(data['nodes'], _STATES)} · {checks}: "
        + ", ".join(f"{count:,} {what}" for what, count in counts.items() if count),
        grid=_grid(data),
        troubles=alike(_said(data["checks"], site), site),
        skips=skipped(
            (
                Said(Tone.IDLE, subject(each["test"]), each["node"], each["message"], "")
                for each in data["checks"]
                if each["outcome"] == "skipped"
            ),
            site,
        ),
        files=("results.json", "junit.xml", "logs/pytest.log"),
    )


def _said(checks: list[dict[str, str]], site: Site) -> Iterator[Said]:
    for each in checks:
        if each["outcome"] in _TONES:
            text, remedy = split_remedy(each["message"])
            function = each["test"].partition("[")[0].rpartition("/")[2]
            nodes = [each["node"]] if each["node"] else []
            again = site.command("validate", nodes or list(site.nodes))
            remedy = remedy or f"Fix it, then, from the controller: {again}"
            yield Said(_TONES[each["outcome"]], function, each["node"], text, remedy)


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
    words = ", ".join(f"{count} {what}" for what, count in counts.items())
    for outcome, tone in _TONES.items():
        if counts.get(outcome):
            return Cell(tone, f"{counts[outcome]}/{total}", words)
    if counts.get("passed"):
        return Cell(Tone.GOOD, str(counts["passed"]), words)
    return Cell(Tone.IDLE, str(total), words)
