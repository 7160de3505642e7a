"""No run is accepted that proved nothing, whatever its ranks leave out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis.strategies import data, integers, sampled_from
from tests.unit.helpers import accept_runs

from rdmaprov.acceptance.evidence import proof
from rdmaprov.acceptance.result import GateResult
from rdmaprov.exit_codes import ExitCode

NEEDED = ("row", "checked", "finished", "done")


def judge(ran):
    """Return the exit code of a run in which nothing else was found."""
    return GateResult(ran.job.nodes, "gloo", ran=ran).exit_code()


def test_run_in_which_every_rank_reports_everything_is_accepted():
    ran = accept_runs.healthy()
    assert list(proof.findings(ran)) == []
    assert judge(ran) is ExitCode.OK


def test_ranks_that_say_nothing_and_end_well_are_not_accepted():
    ran = accept_runs.healthy()
    ran.events.clear()
    assert judge(ran) is ExitCode.UNKNOWN
    found = list(proof.findings(ran))
    assert [each.node for each in found] == list(ran.job.nodes)
    assert all(not each.proven for each in found)
    assert "rank 0 did not report its end, and 12 more" in found[0].text


def test_result_without_a_run_is_not_accepted():
    assert GateResult(("n0", "n1"), "gloo").exit_code() is ExitCode.UNKNOWN


def test_run_that_a_node_did_not_end_is_not_accepted():
    ran = accept_runs.healthy()
    ran.nodes["n1"].rc = None
    assert judge(ran) is ExitCode.UNKNOWN


@given(data())
def test_every_report_is_needed(data):
    ran = accept_runs.healthy()
    needed = [number for number, event in enumerate(ran.events) if event["event"] in NEEDED]
    event = ran.events.pop(data.draw(sampled_from(needed)))
    (found,) = proof.findings(ran)
    assert found.node == ran.job.node_of(event["rank"])
    assert judge(ran) is ExitCode.UNKNOWN


@given(data())
def test_no_report_of_another_rank_plane_or_size_stands_in(data):
    ran = accept_runs.healthy()
    needed = [number for number, event in enumerate(ran.events) if event["event"] in NEEDED]
    number = data.draw(sampled_from(needed))
    event = dict(ran.events[number])
    names = sorted(event.keys() & {"rank", "plane", "bytes", "in_place"})
    name = data.draw(sampled_from(names))
    event[name] = {
        "rank": (event["rank"] + 1) % ran.job.world,
        "plane": "rail 9",
        "bytes": event.get("bytes", 0) + 4,
        "in_place": not event.get("in_place"),
    }[name]
    ran.events[number] = event
    assert judge(ran) is ExitCode.UNKNOWN


@pytest.mark.parametrize("time", [float("nan"), float("inf"), -1.0, 0.0, "1", None])
@given(integers(0, 3))
def test_time_that_is_none_is_no_proof(time, rank):
    ran = accept_runs.healthy()
    accept_runs.change(ran, "row", lambda event: event["rank"] == rank, median_us=time)
    assert judge(ran) is ExitCode.UNKNOWN


def test_types_that_were_left_out_are_no_proof():
    ran = accept_runs.healthy()
    accept_runs.change(ran, "checked", lambda event: event["rank"] == 1, dtypes=["float32"])
    (found,) = proof.findings(ran)
    assert found.node == "n1"


def test_sizes_that_rank_0_declared_cut_are_left_out_and_no_others():
    ran = accept_runs.healthy()
    smallest = min(ran.job.tasks[0].sizes)
    ran.events = [event for event in ran.events if event.get("bytes") != smallest]
    assert not proof.is_complete(ran)
    accept_runs.say(ran, 1, "cut", plane="rail 0", task=0, group=0, bytes=smallest, used_s=200.0)
    assert not proof.is_complete(ran)
    for task in [task for task in ran.job.tasks if task.sizes]:
        at = {"plane": task.plane, "task": task.number, "group": 0}
        accept_runs.say(ran, 0, "cut", **at, bytes=smallest, used_s=200.0)
    assert proof.is_complete(ran)
