"""`rdmaprov history`: thirty runs of a made-up fleet, and its index."""

from __future__ import annotations

import json
import sqlite3

import pytest
from tests.report import runs
from tests.unit.helpers import fleet_runs
from tests.unit.helpers.fleet_runs import SITE, history

from rdmaprov.cli import run
from rdmaprov.exit_codes import ExitCode
from rdmaprov.history import index, read_run
from rdmaprov.history.changes import NEAR


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
    """The index is thrown away and rebuilt where it is not what the runs say."""

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
        first = next(kept.parent.glob("20260301*"))
        (first / "results.json").write_text(
            json.dumps({**fleet_runs.acceptance(1), "exit_code": 1})
        )
        assert [each["exit_code"] for each in history(capsys)[1]["runs"]] == [1, 0]

    @pytest.mark.usefixtures("kept")
    def test_run_is_read_once(self, capsys, monkeypatch):
        monkeypatch.setattr(read_run, "read_run", lambda _path: pytest.fail("read again"))
        assert len(self.names(capsys)) == 2

    def test_removed_run_is_forgotten(self, kept, capsys):
        first = next(kept.parent.glob("20260301*"))
        first.rename(kept.parent.parent / "elsewhere")
        assert self.names(capsys) == ["20260302-020000-accept"]

    def test_directory_in_its_place_costs_only_time(self, kept, capsys):
        kept.unlink()
        kept.mkdir()
        assert len(self.names(capsys)) == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "Missing argument 'SITE'"),
        (["inventory/other"], "has no run of inventory/other"),
        ([SITE, "more"], "unexpected extra argument"),
        ([SITE, "--since", "x"], "No such option"),
    ],
)
def test_wrong_usage_is_refused(words, says, place, capsys):
    fleet_runs.keep(place, fleet_runs.acceptance(1))
    assert run(["history", *words]) == ExitCode.USAGE
    assert says in capsys.readouterr().err


def test_site_with_runs_is_hinted_at(place, capsys):
    fleet_runs.keep(place, fleet_runs.acceptance(1))
    run(["history", "inventory/other"])
    assert f"hint:  Sites with runs: {SITE}" in capsys.readouterr().err


def test_no_runs_at_all(place, capsys):
    assert run(["history", SITE]) == ExitCode.USAGE
    assert "Run first: rdmaprov validate inventory/prod" in capsys.readouterr().err
    assert list(place.iterdir()) == []
