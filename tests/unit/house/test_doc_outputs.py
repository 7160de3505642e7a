"""What pages show is what the program prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.helpers.doc_outputs import output_of, shown_commands
from tests.unit.helpers.fleet_month import PAGE, FleetMonth, refreshed

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
