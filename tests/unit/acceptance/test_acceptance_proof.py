"""No run is accepted that proved nothing, and whatever the boundary takes can be judged."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import data, integers, sampled_from
from tests.unit.helpers import accept_runs

from rdmaprov.acceptance.at_fault import run as blame
from rdmaprov.acceptance.at_fault import wrong_sums
from rdmaprov.acceptance.evidence import measure, proof
from rdmaprov.acceptance.paths import judge as paths
from rdmaprov.acceptance.ranks.events import parse_event
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.stages.fleet import skipped_sizes, straggler_notes
from rdmaprov.acceptance.summary import summary_lines
from rdmaprov.boundary import OddAnswer
from rdmaprov.exit_codes import ExitCode

NEEDED = ("row", "checked", "finished", "done")


def judge(ran):
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
    name = data.draw(sampled_from(sorted(event.keys() & {"rank", "plane", "bytes", "in_place"})))
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


EDGES = [
    *(0, 0.0, -1, 5e-324, 1e308, 1 << 64, 10**308, 10**400),
    *("", "\n", "Ranks 99999 failed to pass monitoredBarrier", "another plane"),
    *([], [0], [0] * 4, [10**400] * 4, {}, {"": 0}, False),
]
AT = {"plane": "rail 0", "task": 0, "group": 0}
ROW = {**AT, "dtype": "float32", "bytes": 8, "in_place": True}
MORE: list[dict[str, Any]] = [
    {"event": "failed", "phase": "x", "error": "x", "entered": 1},
    {"event": "missing", "error": "x"},
    {"event": "late", "phase": "x", "limit_s": 1, "where": "x", "entered": 1},
    {"event": "cut", **AT, "bytes": 8, "used_s": 1},
    {"event": "wrong", **ROW, "first": [1, 0, 1.0, 2.0], "of": 4},
    {"event": "source", **AT, "source": 1, "first": [1, 0, 1.0, 2.0]},
]
OWN = [event for event in accept_runs.healthy().events if event["rank"] == 0]
EACH_KIND = list({event["event"]: event for event in [*OWN, *MORE]}.values())


def judge_edge(ran):
    result = GateResult(ran.job.nodes, "gloo", ran=ran)
    result.findings += blame.findings(ran)
    for look in (wrong_sums.findings, paths.lossy_paths, paths.stray_traffic, paths.slow_rails):
        result.findings += look(ran)
    result.findings += [*proof.findings(ran), *skipped_sizes(ran)]
    result.notes += straggler_notes(ran)
    measure.directions(ran)
    json.dumps(result.as_data(), allow_nan=False)
    return [line.text for line in summary_lines(result)]


@pytest.mark.parametrize("event", EACH_KIND, ids=lambda event: event["event"])
@pytest.mark.parametrize("ends_well", [True, False])
def test_no_event_that_is_taken_breaks_the_judgement(event, ends_well):
    made = accept_runs.job()
    tasks = {task.number: task for task in made.tasks}
    for name in event.keys() - {"rank", "event"}:
        for value in EDGES:
            line = json.dumps({"rank": 0, **event, name: value})
            try:
                taken = parse_event(line, range(1), made.world, tasks)
            except OddAnswer:
                continue
            assert taken is not None
            ran = accept_runs.healthy() if ends_well else accept_runs.broken()
            same = [e for e in ran.events if e["rank"] == 0 and e["event"] == event["event"]]
            ran.events = [e for e in ran.events if e not in same] + [taken] * max(1, len(same))
            assert all(text.isprintable() for text in judge_edge(ran)), line


@pytest.mark.parametrize("change", [{"plane": "rail 9"}, {"task": 99}, {"group": 1}], ids=str)
def test_a_task_that_a_rank_was_not_given_is_odd(change):
    tasks = {task.number: task for task in accept_runs.job().tasks}
    cut = {"event": "cut", "rank": 0, **AT, "bytes": 8, "used_s": 1}
    assert parse_event(json.dumps(cut), range(1), 2, tasks) == cut
    with pytest.raises(OddAnswer, match="a task that is not theirs"):
        parse_event(json.dumps({**cut, **change}), range(1), 2, tasks)
