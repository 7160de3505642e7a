"""What pages show is what the program prints."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.unit.helpers.doc_commands import FENCE
from tests.unit.helpers.fleet_month import PAGE, FleetMonth, refreshed

from rdmaprov import cli


@dataclass(frozen=True)
class ShownCommand:
    """A command line of rdmaprov, and the lines that a page shows below it."""

    line: str
    output: str


def shown_commands(text: str) -> Iterator[ShownCommand]:
    """Yield the commands of fenced blocks with `$ `, in their order."""
    for block in FENCE.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, output = part.partition("\n")
            if line.startswith("rdmaprov "):
                yield ShownCommand(line, output)


def output_of(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a command prints on standard output."""
    cli.run(shlex.split(line)[1:])
    return capsys.readouterr().out


ROOT = Path(__file__).resolve().parents[3]
SWITCHES = list(shown_commands((ROOT / "docs/switches.md").read_text()))


@pytest.mark.parametrize("shown", SWITCHES, ids=lambda shown: shown.line)
def test_page_on_switches_shows_what_is_printed(shown, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert output_of(shown.line, capsys) == shown.output


def test_month_of_a_fleet_shows_what_is_printed(tmp_path):
    """Refresh with: python -m tests.unit.helpers.fleet_month."""
    page = PAGE.read_text()
    assert refreshed(page, FleetMonth(tmp_path)) == page
    metrics = [line for line in page.splitlines() if line.startswith("rdmaprov_")]
    assert len(metrics) == 3
    assert set(metrics) <= set((tmp_path / "rdmaprov.prom").read_text().splitlines())


def test_another_output_is_noticed(tmp_path):
    page = PAGE.read_text()
    start = page[: page.index("## Day 19")]
    wrong = start.replace("10 runs from", "11 runs from")
    assert wrong != start
    assert refreshed(wrong, FleetMonth(tmp_path)) != wrong
