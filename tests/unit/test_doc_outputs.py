"""What pages show is what the program prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.doc_outputs import output_of, shown_commands

ROOT = Path(__file__).resolve().parents[2]
SWITCHES = list(shown_commands((ROOT / "docs/switches.md").read_text()))


@pytest.mark.parametrize("shown", SWITCHES, ids=lambda shown: shown.line)
def test_page_on_switches_shows_what_is_printed(shown, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert output_of(shown.line, capsys) == shown.output
