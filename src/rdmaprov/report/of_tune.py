"""The page of `tune`."""

from collections.abc import Iterator, Mapping
from typing import Any

from rdmaprov.bandwidth.rates import format_size
from rdmaprov.report.issues import grid
from rdmaprov.report.model import Cell, Grid, Tone, View
from rdmaprov.words import quantity

_SIGNS = ((Tone.GOOD, "took part in all jobs"), (Tone.IDLE, "nothing was measured"))


def view(data: Mapping[str, Any]) -> View:
    """Return the content of the page."""
    return View(
        headline=_headline(data),
        summary=f"{quantity(len(data['nodes']), 'node')} · {quantity(data['jobs'], 'job')} · "
        f"{len(data['of_fleet'])} of {quantity(len(data['tests']), 'gain')} believed",
        grid=_grid(data),
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
