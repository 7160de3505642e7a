"""`rdmaprov history`: thirty runs of a made-up fleet, its index, kinds, and runs that are odd."""

import json
import os
import sqlite3

import pytest
from tests.report import gate_runs, runs
from tests.unit.helpers import fleet_runs
from tests.unit.helpers.fleet_runs import SITE, history

from rdmaprov.cli import run
from rdmaprov.exit_codes import ExitCode
from rdmaprov.history import index, read_run
from rdmaprov.history.changes import NEAR
from rdmaprov.history.compare import compare


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_drift_of_a_rail_and_a_new_driver_are_both_named(place, capsys):
    fleet_runs.thirty(place)
    code, data, text = history(capsys)
    assert code == data["exit_code"] == ExitCode.FAILED
    (change,) = data["changes"]
    assert (change["rail"], change["kind"], change["of"]) == (3, "drift", 30)
    assert abs(change["number"] - fleet_runs.DRIFT_FROM) <= NEAR
    assert change["share"] == pytest.approx(-fleet_runs.DRIFT * 13, abs=0.03)
    assert len(change["nodes"]) == 4
    # The driver came six runs later: nobody may take it for the cause.
    assert change["with"] == []
    driver = next(each for each in data["events"] if each["what"] == "NVIDIA driver")
    assert driver["run"] == f"202603{fleet_runs.DRIVER_FROM}-020000-accept"
    assert (driver["was"], driver["now"]) == fleet_runs.DRIVERS
    assert "rail 3: sent while busy on 4 nodes" in text
    assert "little by little from 2026031" in text
    assert "NVIDIA driver 570.86.15 → 580.65.06 on 4 nodes" in text
    assert "because" not in text


def test_what_changed_with_a_fall_is_named_beside_it(place, capsys, monkeypatch):
    monkeypatch.setattr(fleet_runs, "DRIVER_FROM", 16)
    monkeypatch.setattr(fleet_runs, "DRIFT", 0.0)
    for number in range(1, 26):
        data = fleet_runs.acceptance(number)
        for rail in data["samples"]["rails"] if number >= 16 else ():
            rail["mean_gb_s"] *= 0.8 if rail["node"] == "gpu2" else 1
        fleet_runs.keep(place, data)
    applied = runs.applied(4, bad=False)
    time = fleet_runs.started(15).replace(hour=9)
    fleet_runs.keep(place, applied | {"started": time.isoformat()})
    code, data, text = history(capsys)
    assert code == ExitCode.FAILED
    assert {each["kind"] for each in data["changes"]} == {"level"}
    for change in data["changes"]:
        assert change["nodes"] == ["gpu2"]
        assert change["run"] == "20260316-020000-accept"
        assert "NVIDIA driver" in {each["what"] for each in change["with"]}
    assert "changed within 2 runs of it:" in text
    assert "apply, mtu: ens[1-8] MTU 1500 → 9000" in text


def test_healthy_fleet_has_no_change(place, capsys):
    for number in range(1, 21):
        fleet_runs.keep(place, fleet_runs.acceptance(number, drift=False))
    code, data, _ = history(capsys)
    assert (code, data["changes"], data["left_out"]) == (ExitCode.OK, [], [])


def test_trouble_has_its_first_run_and_its_last(place, capsys):
    for number, bad in ((1, False), (2, True), (3, True), (4, False)):
        data = runs.validated(4, bad=bad) | {"started": fleet_runs.started(number).isoformat()}
        fleet_runs.keep(place, data)
    _, data, text = history(capsys)
    mtu = next(each for each in data["troubles"] if "MTU is 1500" in each["text"])
    assert (mtu["first_run"], mtu["newest_run"]) == tuple(
        f"2026030{day}-020000-validate" for day in (2, 3)
    )
    assert (mtu["runs"], mtu["of"], mtu["is_there"]) == (2, 3, False)
    assert mtu["rails"] == list(range(8))
    assert data["nodes"]["gpu1"]["validate"]["state"] == "passed"
    assert "gone after 20260303-020000-validate" in text


class TestIndex:
    @pytest.fixture
    def kept(self, place, capsys):
        for number in (1, 2):
            fleet_runs.keep(place, fleet_runs.acceptance(number))
        history(capsys)
        return place / "runs" / index.NAME

    def names(self, capsys):
        return [each["name"] for each in history(capsys)[1]["runs"]]

    def test_is_for_its_user_alone(self, kept):
        assert kept.stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize(
        "damage", [b"", b"no database", b"SQLite format 3\x00" + b"\xff" * 9000]
    )
    def test_broken_one_is_rebuilt(self, damage, kept, capsys):
        kept.write_bytes(damage)
        assert len(self.names(capsys)) == 2
        with sqlite3.connect(kept) as connection:
            assert connection.execute("SELECT count(*) FROM run").fetchone() == (2,)

    def test_one_of_another_version_is_rebuilt(self, kept, capsys):
        with sqlite3.connect(kept) as connection:
            connection.execute("UPDATE made SET version = '0 0.0.1'")
            connection.execute("DELETE FROM run")
        assert len(self.names(capsys)) == 2

    def test_changed_run_is_read_again(self, kept, capsys):
        (next(kept.parent.glob("20260301*")) / "results.json").write_text(
            json.dumps({**fleet_runs.acceptance(1), "exit_code": 1})
        )
        assert [each["exit_code"] for each in history(capsys)[1]["runs"]] == [1, 0]

    @pytest.mark.usefixtures("kept")
    def test_run_is_read_once(self, capsys, monkeypatch):
        monkeypatch.setattr(read_run, "read_run", lambda _path: pytest.fail("read again"))
        assert len(self.names(capsys)) == 2

    def test_removed_run_is_forgotten(self, kept, capsys):
        next(kept.parent.glob("20260301*")).rename(kept.parent.parent / "elsewhere")
        assert self.names(capsys) == ["20260302-020000-accept"]

    def test_directory_in_its_place_costs_only_time(self, kept, capsys):
        kept.unlink()
        kept.mkdir()
        assert len(self.names(capsys)) == 2


def test_site_without_runs_is_refused_and_those_with_runs_hinted_at(place, capsys):
    fleet_runs.keep(place, fleet_runs.acceptance(1))
    assert run(["history", "inventory/other"]) == ExitCode.USAGE
    error, hint = capsys.readouterr().err.splitlines()
    assert "has no run of inventory/other" in error
    assert hint == f"hint:  Sites with runs: {SITE}"


def test_no_runs_at_all(place, capsys):
    assert run(["history", SITE]) == ExitCode.USAGE
    assert "Run first: rdmaprov validate inventory/prod" in capsys.readouterr().err
    assert list(place.iterdir()) == []


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


@pytest.mark.parametrize("name", [*DAMAGED, "pipe"])
def test_damaged_run_is_named_and_left_out(name, place, capsys):
    fleet_runs.keep(place, fleet_runs.acceptance(1))
    bad = place / "runs/20260309-000000-accept"
    bad.mkdir()
    if name == "pipe":  # is not waited for
        os.mkfifo(bad / "results.json")
    else:
        (bad / "results.json").write_text(DAMAGED[name])
    code, data, text = history(capsys)
    assert code == ExitCode.UNKNOWN
    assert [each["run"] for each in data["left_out"]] == [bad.name]
    assert len(data["runs"]) == 1
    assert f"left out: {bad.name}: results.json" in text
    assert "\x1b" not in text


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


def keep_run(place, number, **changes):
    data = gate_runs.accepted(4) | {"started": fleet_runs.started(number).isoformat()}
    data["findings"] = [{**each, **changes} for each in data["findings"][:2]]
    return fleet_runs.keep(place, data)


def run_of_0_1_0(place, number, say=lambda what: what):
    """Keep it as 0.1.0 wrote it: without kinds, perhaps in other words."""
    data = gate_runs.accepted(4) | {"started": fleet_runs.started(number).isoformat()}
    for each in data["findings"]:
        for name in ("kind", "leaf", "part", "values"):
            del each[name]
        each["what"] = say(each["what"])
    del data["findings"][2:]
    return fleet_runs.keep(place, data)


@pytest.mark.parametrize("say", [lambda what: what, lambda what: f"the rail {what}"])
def test_fault_of_before_the_upgrade_is_the_same_fault(place, capsys, say):
    old = run_of_0_1_0(place, 1, say)
    new = keep_run(place, 2)
    _, data, _ = history(capsys)
    assert len(data["troubles"]) == 2
    for each in data["troubles"]:
        assert (each["first_run"], each["newest_run"], each["runs"]) == (old.name, new.name, 2)
    assert {each["kind"] for each in data["troubles"]} == {"traffic.share", "node.counters"}
    for one, other in ((old, new), (new, old)):
        assert compare(read_run.read_run(one), read_run.read_run(other)).troubles == []


def test_fault_that_ended_with_the_upgrade_is_gone_and_another_one_new(place, capsys):
    old = run_of_0_1_0(place, 1)
    where = {"node": "gpu2", "nodes": ["gpu2"], "rail": 5}
    new = keep_run(place, 2, kind="link.symbols", what="9 symbol errors", **where)
    _, data, _ = history(capsys)
    assert [each["is_there"] for each in data["troubles"]] == [True, False, False]
    differences = compare(read_run.read_run(old), read_run.read_run(new)).troubles
    assert [(bool(each.was), bool(each.now)) for each in differences] == [
        (False, True),
        (True, False),
        (True, False),
    ]


def test_two_counters_of_one_rail_are_two_faults(place, capsys):
    keep_run(
        place, 1, kind="link.errors", part="port.link_error_recovery", node="gpu2", nodes=["gpu2"]
    )
    keep_run(
        place, 2, kind="link.errors", part="hw.rx_icrc_encapsulated", node="gpu2", nodes=["gpu2"]
    )
    _, data, _ = history(capsys)
    assert {each["kind"] for each in data["troubles"]} == {
        "link.errors port.link_error_recovery",
        "link.errors hw.rx_icrc_encapsulated",
    }
