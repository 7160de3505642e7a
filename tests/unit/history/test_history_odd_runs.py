"""Runs in a history that earlier versions wrote, that are damaged, killed, or a stranger's."""

from __future__ import annotations

import json
import os

import pytest
from tests.report import runs
from tests.unit.helpers import fleet_runs
from tests.unit.helpers.fleet_runs import SITE, history

from rdmaprov.cli import run
from rdmaprov.exit_codes import ExitCode


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def earlier_versions():
    """Return results of what was before one head for all verbs, and of 0.1.0."""
    new = ("commit", "rdmaprov", "ended", "verdict", "waivers")
    accepted = fleet_runs.acceptance(1)
    first = {key: value for key, value in accepted.items() if key not in new}
    for key in ("stages", "samples", "rails", "floor_over_rails"):
        del first[key]
    for node in first["nodes"].values():
        node.pop("versions"), node.pop("firmware")
    validated = {key: own for key, own in runs.validated(4).items() if key not in new}
    del validated["fleet"]
    for node in validated["nodes"].values():
        del node["subjects"]
    applied = {key: own for key, own in runs.applied(4).items() if key not in new}
    for node in applied["nodes"].values():
        for key in ("roles", "interrupts", "busy", "roles_run", "probed", "not_proven"):
            del node[key]
        node["begun"] = []
    third = {key: own for key, own in accepted.items() if key not in ("commit", "waivers")}
    return {
        "first accept": first | {"verdict": "accepted"},
        "first validate": validated,
        "first apply": applied,
        "0.1.0 accept": third,
    }


@pytest.mark.parametrize("name", earlier_versions())
def test_run_of_an_earlier_version_is_read(name, place, capsys):
    data = earlier_versions()[name]
    fleet_runs.keep(place, data)
    _, found, _ = history(capsys)
    assert found["left_out"] == []
    assert [each["verb"] for each in found["runs"]] == [data["verb"]]
    assert found["nodes"].keys() == data["nodes"].keys()
    assert (found["series"] > 0) == (data["verb"] == "accept")


ODD_PATHS = {"names": ["a"], "rows": [[0, 7, 0, 0, 1, 1, 1, ""]]}
GOOD = json.dumps(fleet_runs.acceptance(1))
DAMAGED = {
    "cut": GOOD[: len(GOOD) // 2],
    "empty": "",
    "no JSON": "\x1b[31mhello\x00",
    "a list": "[]",
    "deep": "[" * 100_000,
    "newer": json.dumps({**json.loads(GOOD), "schema": 2}),
    "schema as text": json.dumps({**json.loads(GOOD), "schema": "1"}),
    "verb": json.dumps({**json.loads(GOOD), "verb": "rm\n-rf"}),
    "no time": json.dumps({**json.loads(GOOD), "started": "yesterday"}),
    "year 1": json.dumps({**json.loads(GOOD), "started": "0001-01-01T00:00:00+14:00"}),
    "exit code": json.dumps({**json.loads(GOOD), "exit_code": 10**400}),
    "nodes": json.dumps({**json.loads(GOOD), "nodes": ["gpu1"]}),
    "planes": json.dumps({**json.loads(GOOD), "planes": {"rows": 1}}),
    "rate": GOOD.replace('"busbw_gb_s": ', '"busbw_gb_s": -', 1),
    "infinite": GOOD.replace('"mean_gb_s": ', '"mean_gb_s": Infinity, "x": ', 1),
    "rail": GOOD.replace('"rail": 3', '"rail": "3"'),
    "paths": json.dumps({**json.loads(GOOD), "paths": ODD_PATHS}),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_run_is_named_and_left_out(name, place, capsys):
    fleet_runs.keep(place, fleet_runs.acceptance(1))
    bad = place / "runs/20260309-000000-accept"
    bad.mkdir()
    (bad / "results.json").write_text(DAMAGED[name])
    code, data, text = history(capsys)
    assert code == ExitCode.UNKNOWN
    assert [each["run"] for each in data["left_out"]] == [bad.name]
    assert len(data["runs"]) == 1
    assert f"left out: {bad.name}: results.json" in text
    assert "\x1b" not in text


def test_pipe_for_results_is_not_waited_for(place, capsys):
    fleet_runs.keep(place, fleet_runs.acceptance(1))
    bad = place / "runs/20260309-000000-accept"
    bad.mkdir()
    os.mkfifo(bad / "results.json")
    code, data, _ = history(capsys)
    assert (code, len(data["left_out"])) == (ExitCode.UNKNOWN, 1)


def test_killed_run_is_named_and_makes_nothing_unknown(place, capsys):
    fleet_runs.keep(place, fleet_runs.acceptance(1))
    (place / "runs/20260309-000000-accept").mkdir()
    code, data, text = history(capsys)
    assert (code, len(data["left_out"])) == (ExitCode.OK, 1)
    assert "killed, or still running" in text


def test_names_and_texts_of_a_stranger_reach_no_terminal_raw(place, capsys):
    data = fleet_runs.acceptance(1)
    evil = "\x1b]0;x\x07<script>alert(1)</script>"
    data["nodes"][evil] = data["nodes"].pop("gpu1")
    data["findings"] = [{"node": evil, "nodes": [evil], "rail": 1, "what": evil, "proven": True}]
    data["site"] = SITE
    fleet_runs.keep(place, data)
    run(["history", SITE])
    out, _ = capsys.readouterr()
    assert "\x1b" not in out
    assert "script" in out
