"""What a run keeps has nothing that a terminal obeys, and loses nothing of what a node said."""

from __future__ import annotations

import json

from rdmaprov.problem import visible
from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.masks import Mask

SAID = "\x1b[2J \x9b31m \u202egnp.exe \x7f \u2028 \ud800 ü"


def obeyed(text):
    return visible(text, lambda _: "!") != text


def test_results_are_the_same_with_escapes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with RunDirectory("validate", Mask([])) as directory:
        text = directory.write_results({"said": SAID})
    kept = (directory.path / "results.json").read_text()
    assert not obeyed(kept)
    assert not obeyed(text)
    assert "ü" in kept
    assert json.loads(kept) == {"said": SAID}


def test_errors_of_ranks_are_kept_with_escapes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with RunDirectory("accept", Mask([])) as directory:
        path = directory.keep_log("n1.err", f"one\n\t{SAID}\n")
    assert path is not None
    assert not obeyed(path.read_text())
    assert path.read_text().startswith("one\n\t\\x1b[2J")


def test_lines_stay_lines():
    assert visible("a\n\tb") == "a\n\tb"
