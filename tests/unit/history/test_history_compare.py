"""`rdmaprov compare`: down to a setting and a size; and when a series changed."""

import json
import random

import pytest
from tests.report import runs
from tests.unit.helpers import fleet_runs

from rdmaprov.cli import run
from rdmaprov.exit_codes import ExitCode
from rdmaprov.history.shift import shifts, trend

ONE, OTHER = "20260310-020000-accept", "20260330-020000-accept"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in (10, 11, 30):
        fleet_runs.keep(tmp_path, fleet_runs.acceptance(number))
    return tmp_path


def compare(capsys, *words):
    code = run(["compare", *words, "--json", "-"])
    out, err = capsys.readouterr()
    return code, json.loads(out), err


@pytest.mark.usefixtures("place")
def test_setting_and_rail_are_shown(capsys):
    code, data, text = compare(capsys, ONE, OTHER)
    assert code == data["exit_code"] == ExitCode.FAILED
    (setting,) = data["settings"]
    assert (setting["what"], setting["was"], setting["now"]) == (
        "NVIDIA driver",
        *fleet_runs.DRIVERS,
    )
    worse = [each for each in data["measured"] if each["worse"]]
    assert {(each["rail"], each["what"]) for each in worse} == {(3, "sent while busy")}
    assert "NVIDIA driver: 570.86.15 → 580.65.06 on 4 nodes" in text
    assert "worse: fleet: rail 3: sent while busy on 4 nodes" in text


def test_size_that_is_slower_is_shown(place, capsys):
    data = fleet_runs.acceptance(12)
    for row in data["planes"][0]["rows"]:
        row["busbw_gb_s"] *= 0.7 if row["bytes"] == 1 << 26 else 1
    fleet_runs.keep(place, data)
    _, found, text = compare(capsys, ONE, "20260312-020000-accept")
    assert [each["bytes"] for each in found["measured"] if each["worse"]] == [1 << 26]
    assert "worse: fleet: bus bandwidth of all rails, 64 MiB:" in text
    assert "alike: fleet: bus bandwidth of all rails, 8 GiB:" in text


@pytest.mark.usefixtures("place")
def test_noise_is_no_difference(capsys):
    code, data, text = compare(capsys, ONE, "20260311-020000-accept")
    assert code == ExitCode.OK
    assert not [each for each in data["measured"] if each["differs"]]
    assert "nothing is worse in the second run" in text


def test_what_apply_changed_in_between_is_shown(place, capsys):
    time = fleet_runs.started(20).isoformat()
    fleet_runs.keep(place, runs.applied(4, bad=False) | {"started": time})
    _, data, text = compare(capsys, ONE, OTHER)
    applied = {each["what"]: each for each in data["settings"] if each["what"].startswith("apply")}
    mtu = applied["apply, mtu: ens[1-8] MTU (20260320-020000-apply)"]
    assert (mtu["was"], mtu["now"]) == ("1500", "9000")
    assert "apply, mtu: ens[1-8] MTU (20260320-020000-apply): 1500 → 9000 on" in text


def test_check_that_fails_now_is_new(place, capsys):
    for number, bad in ((1, False), (2, True)):
        data = runs.validated(4, bad=bad) | {"started": fleet_runs.started(number).isoformat()}
        fleet_runs.keep(place, data)
    names = [f"2026030{day}-020000-validate" for day in (1, 2)]
    code, data, text = compare(capsys, *names)
    assert code == ExitCode.FAILED
    assert "new: gpu1 ens1: running: MTU is 1500, expected 9000" in text
    assert {
        "what": "state",
        "was": "passed",
        "now": "failed",
        "nodes": ["gpu1", "gpu3", "gpu4"],
        "worse": True,
    } in data["states"]
    code, data, text = compare(capsys, *reversed(names))
    assert code == ExitCode.OK
    assert "gone: gpu1 ens1: running: MTU is 1500, expected 9000" in text


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([ONE], ExitCode.USAGE, "Missing argument"),
        ([ONE, ""], ExitCode.USAGE, "a RUN is empty"),
        ([ONE, "20260101-000000-accept"], ExitCode.USAGE, "there is no such run"),
        ([ONE, "20260302-091200-validate"], ExitCode.USAGE, "a run of accept,"),
        ([ONE, "20260401-000000-accept"], ExitCode.UNKNOWN, "killed, or is still running"),
        ([ONE, "20260402-000000-accept"], ExitCode.UNKNOWN, "incomplete or no JSON"),
    ],
)
def test_wrong_runs_are_refused(words, code, says, place, capsys):
    fleet_runs.keep(place, runs.validated(2))
    for name, text in (("20260401-000000-accept", None), ("20260402-000000-accept", "{")):
        (place / "runs" / name).mkdir()
        if text:
            (place / "runs" / name / "results.json").write_text(text)
    assert run(["compare", *words]) == code
    assert says in capsys.readouterr().err


def test_node_that_is_unknown_in_the_second_run_is_not_called_good(place, capsys):
    first, second = (runs.validated(4, bad=False) for _ in range(2))
    second["nodes"]["gpu2"] |= {"state": "unknown"}
    for number, data in ((1, first), (2, second), (3, second)):
        fleet_runs.keep(place, data | {"started": fleet_runs.started(number).isoformat()})
    code, _, text = compare(capsys, *([f"2026030{day}-020000-validate" for day in (2, 3)]))
    assert code == ExitCode.UNKNOWN
    assert "not compared: gpu2: unknown in the second run" in text
    assert "nothing is worse" not in text


LEVEL = 46.0


def series(count, *, seed=1, noise=0.01, drift=0.0, step=0.0, at=15):
    """Return values that drift by a share of each run, or fall at once, from place `at`."""
    chance = random.Random(seed)
    lost = [drift * max(0, n - at + 1) + (step if n >= at else 0) for n in range(count)]
    return [LEVEL * (1 - each) * chance.gauss(1, noise) for each in lost]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("drift", [0.01, 0.02, 0.03])
def test_drift_has_a_beginning(drift, seed):
    (found,) = shifts(series(30, drift=drift, at=16, seed=seed))
    assert found.is_drift
    assert abs(found.place - 16) <= 2
    # Its end is a running median too: that of the last three runs.
    assert found.share == pytest.approx(-drift * 13, abs=0.03)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("step", "count", "at"), [(0.1, 30, 17), (0.2, 30, 24), (0.1, 12, 6)])
def test_fall_at_once_is_no_drift(step, count, at, seed):
    (found,) = shifts(series(count, step=step, at=at, seed=seed))
    assert not found.is_drift
    assert abs(found.place - at) <= 1
    assert found.share == pytest.approx(-step, abs=0.02)


def test_what_recovers_is_two_changes():
    down, up = shifts(series(12, seed=2) + series(12, step=0.2, at=0, seed=3) + series(12, seed=4))
    assert (down.place, up.place) == (12, 24)
    assert down.share < 0 < up.share


@pytest.mark.parametrize("odd", [0.0, 0.5, 3.0])
def test_one_odd_run_is_no_change(odd):
    values = series(30)
    values[20] *= odd
    assert shifts(values) == []


def test_rail_that_sends_nothing_any_more_has_changed():
    (found,) = shifts([*series(15), *[0.0] * 10])
    assert (found.place, found.is_drift) == (15, False)


@pytest.mark.parametrize("values", [[], [1.0], [0.0] * 30, [46.0] * 30, series(9, step=0.5, at=4)])
def test_few_or_equal_values_say_nothing(values):
    assert shifts(values) == []


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_noise_is_seldom_a_change(noise):
    """bench/history.py measures it with more series; docs/history.md has the figures."""
    assert sum(bool(shifts(series(30, noise=noise, seed=seed))) for seed in range(300)) <= 2


@pytest.mark.parametrize("drift", [0.0, 0.02, -0.02])
def test_trend_is_the_slope_by_run(drift):
    assert trend(series(20, drift=drift, at=0)) == pytest.approx(-drift, abs=0.006)


def test_trend_of_one_value_is_none():
    assert trend([46.0]) == trend([]) == 0.0
