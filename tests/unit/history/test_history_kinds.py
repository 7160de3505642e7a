"""The first run after an upgrade: what was there before is neither new nor gone."""

from __future__ import annotations

import pytest
from tests.report import gate_runs
from tests.unit.helpers import fleet_runs
from tests.unit.helpers.fleet_runs import history

from rdmaprov.history.compare import compare
from rdmaprov.history.read_run import read_run

OF_KINDS = ("kind", "leaf", "part", "values")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(place, number, **changes):
    """Keep an acceptance with two findings; return its directory."""
    data = gate_runs.accepted(4) | {"started": fleet_runs.started(number).isoformat()}
    data["findings"] = [{**each, **changes} for each in data["findings"][:2]]
    return fleet_runs.keep(place, data)


def run_of_0_1_0(place, number, say=lambda what: what):
    """Keep it as 0.1.0 wrote it: without kinds, perhaps in other words."""
    data = gate_runs.accepted(4) | {"started": fleet_runs.started(number).isoformat()}
    for each in data["findings"]:
        for name in OF_KINDS:
            del each[name]
        each["what"] = say(each["what"])
    del data["findings"][2:]
    return fleet_runs.keep(place, data)


@pytest.mark.parametrize("say", [lambda what: what, lambda what: f"the rail {what}"])
def test_fault_of_before_the_upgrade_is_the_same_fault(place, capsys, say):
    old = run_of_0_1_0(place, 1, say)
    new = run(place, 2)
    _, data, _ = history(capsys)
    assert len(data["troubles"]) == 2
    for each in data["troubles"]:
        assert (each["first_run"], each["newest_run"], each["runs"]) == (old.name, new.name, 2)
    assert {each["kind"] for each in data["troubles"]} == {"traffic.share", "node.counters"}
    for one, other in ((old, new), (new, old)):
        assert compare(read_run(one), read_run(other)).troubles == []


def test_fault_that_ended_with_the_upgrade_is_gone_and_another_one_new(place, capsys):
    old = run_of_0_1_0(place, 1)
    where = {"node": "gpu2", "nodes": ["gpu2"], "rail": 5}
    new = run(place, 2, kind="link.symbols", what="9 symbol errors", **where)
    _, data, _ = history(capsys)
    assert [each["is_there"] for each in data["troubles"]] == [True, False, False]
    differences = compare(read_run(old), read_run(new)).troubles
    assert [(bool(each.was), bool(each.now)) for each in differences] == [
        (False, True),
        (True, False),
        (True, False),
    ]


def test_two_counters_of_one_rail_are_two_faults(place, capsys):
    run(place, 1, kind="link.errors", part="port.link_error_recovery", node="gpu2", nodes=["gpu2"])
    run(place, 2, kind="link.errors", part="hw.rx_icrc_encapsulated", node="gpu2", nodes=["gpu2"])
    _, data, _ = history(capsys)
    assert {each["kind"] for each in data["troubles"]} == {
        "link.errors port.link_error_recovery",
        "link.errors hw.rx_icrc_encapsulated",
    }
