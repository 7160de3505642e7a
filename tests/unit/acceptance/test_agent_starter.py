"""The ranks of a node: each gets its place, and one that fails ends the others."""

import json
import sys
import time

import pytest
from tests.tables import cases

from rdmaprov.acceptance.agent.starter import run_ranks

pytestmark = pytest.mark.waits

PLAN = {"first": 4, "count": 2, "world": 8, "address": "192.0.2.7", "port": 29400}
# A rank of this script is ready once it has a file.
SCRIPT = cases(__file__, "script")
FAILS = "\nif local == '1':\n    {how}\ntime.sleep(600)"
KILLED = "os.kill(os.getpid(), signal.SIGKILL)"


def run(tmp_path, of_all, of_the_first="pass"):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"ranks": PLAN}))
    script = SCRIPT.format(here=str(tmp_path), of_the_first=of_the_first, of_all=of_all)
    begin = time.monotonic()
    return run_ranks(plan, [sys.executable, "-c", script]), time.monotonic() - begin


def test_each_rank_knows_its_place_and_all_end_well(tmp_path):
    status, _ = run(tmp_path, "sys.exit(0)")
    places = [json.loads((tmp_path / local).read_text()) for local in "01"]
    assert status == 0
    assert places == [
        ["4", "0", "8", "2", "192.0.2.7", "29400"],
        ["5", "1", "8", "2", "192.0.2.7", "29400"],
    ]


@pytest.mark.parametrize(("how", "expected"), [(KILLED, -9), ("sys.exit(3)", 3)])
def test_rank_that_failed_is_told_and_not_those_that_were_ended_for_it(
    tmp_path, capfd, how, expected
):
    status, seconds = run(tmp_path, FAILS.format(how=how))
    (told,) = map(json.loads, capfd.readouterr().out.splitlines())
    assert (status, told) == (1, {"rank": 5, "event": "ended", "status": expected})
    assert seconds < 60


@pytest.mark.parametrize("how", ["signal.signal(15, signal.SIG_IGN)", "signal.raise_signal(19)"])
def test_rank_that_ignores_signals_or_is_stopped_is_ended_too(tmp_path, monkeypatch, how):
    monkeypatch.setattr("rdmaprov.acceptance.agent.starter._TERMINATE_S", 0.3)
    # The first one is seen to be ready before it stops itself.
    ready = "(here / '0.new').rename(here / '0')" if "19" in how else "pass"
    status, seconds = run(tmp_path, FAILS.format(how=KILLED), f"{ready}; {how}")
    assert (status, seconds < 60) == (1, True)
