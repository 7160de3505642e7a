"""How long a verb will take, by the runs that are in runs/."""

import itertools
import json
from typing import Any

import pytest

from rdmaprov.runs.estimate import expected, in_turn

HEAD = {"schema": 1, "exit_code": 0, "site": "dc1"}
STAGES = [{"name": "host", "state": "passed", "seconds": 60.0}]
STAGES += [{"name": "fleet", "state": "passed", "seconds": 40.0}]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.delenv("RDMAPROV_RUNS", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dc1").mkdir()
    return tmp_path


@pytest.fixture
def keep(here):
    """Provide what writes a run's results: its verb, number of nodes, duration, and more."""
    made = iter(range(10, 60))

    def write(verb: str, count: int, seconds: float, **more: Any) -> None:
        run = here / f"runs/20261101-0000{next(made)}-{verb}"
        run.mkdir(parents=True)
        named: dict[str, Any] = {f"n{each}": {} for each in range(count)}
        data = {**HEAD, "verb": verb, "nodes": named, "seconds": seconds, **more}
        (run / "results.json").write_text(json.dumps(data))

    return write


def said(here, verb, nodes, **asked):
    found = expected(here / "dc1", verb, nodes, **asked)
    return None if found is None else (round(found.low_s), round(found.high_s), found.runs)


def test_nothing_is_said_without_a_run_that_did_the_same_to_its_end(here, keep):
    keep("tune", 4, 100, site="other")
    keep("tune", 4, 100, exit_code=130)
    keep("tune", 4, "100")
    keep("tune", 4, 0)
    keep("accept", 4, 100, stages=STAGES[:1])
    keep("apply", 4, 100, roles=["mtu"])
    keep("validate", 4, 100, complete={"left_out": ["-k mtu"]})
    assert said(here, "tune", 4) is said(here, "apply", 4) is said(here, "validate", 4) is None
    assert said(here, "accept", 4, stages=["host", "fleet"]) is None


def test_runs_of_the_same_size_span_the_range(here, keep):
    keep("tune", 4, 100)
    keep("tune", 4, 200)
    assert said(here, "tune", 4) == (80, 250, 2)


@pytest.mark.parametrize(("nodes", "low", "high"), [(16, 80, 500), (2, 40, 125)])
def test_other_sizes_span_no_difference_and_proportion(here, keep, nodes, low, high):
    keep("tune", 4, 100)
    assert said(here, "tune", nodes) == (low, high, 1)


def test_only_the_newest_runs_count(here, keep):
    for seconds in (9000, 100, 100, 100, 100, 100):
        keep("tune", 4, seconds)
    assert said(here, "tune", 4) == (80, 125, 5)


def test_reading_of_large_runs_ends(here, keep, monkeypatch):
    clock = itertools.count(step=0.4)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    for seconds in (800, 400, 200, 100):
        keep("tune", 4, seconds)
    assert said(here, "tune", 4) == (80, 250, 2)


def test_accept_takes_as_long_as_its_stages_and_the_soak(here, keep):
    keep("accept", 4, 999, stages=STAGES)
    assert said(here, "accept", 4, stages=["host"]) == (48, 75, 1)
    asked = ["state", "host", "fleet", "soak"]
    assert said(here, "accept", 4, stages=asked, soak_s=3600.0) is None
    keep("accept", 4, 999, stages=[{"name": "state", "state": "passed", "seconds": 0.0}, *STAGES])
    assert said(here, "accept", 4, stages=asked, soak_s=3600.0) == (3680, 3725, 1)


def test_a_gate_that_was_cut_short_says_nothing(here, keep):
    keep("accept", 4, 99, stages=[STAGES[0], {**STAGES[1], "state": "skipped"}], exit_code=1)
    assert said(here, "accept", 4, stages=["host", "fleet"]) is None
    assert said(here, "accept", 4, stages=["host"]) == (48, 75, 1)


def test_batches_of_apply_follow_one_another(here, keep):
    keep("apply", 2, 100, roles=[], nodes={"n1": {"seconds": 50}, "n2": {"seconds": 40}})
    assert said(here, "apply", 2) == (40, 125, 1)
    assert said(here, "apply", 2, batches=4) == (160, 250, 1)


def test_what_comes_in_turn_is_known_only_if_each_part_is(here, keep):
    keep("tune", 4, 100)
    one = expected(here / "dc1", "tune", 4)
    assert in_turn([one, None]) is in_turn([]) is None
    both = in_turn([one, one])
    assert both is not None
    assert both.text == "expected to take 2 to 5 min (1 earlier run)"
