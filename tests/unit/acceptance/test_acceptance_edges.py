"""Whatever the boundary takes from ranks, the judgement of a run can use."""

from __future__ import annotations

import json
from typing import Any

import pytest
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


def judge(ran):
    """Judge a run as the gate does."""
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
            assert all(text.isprintable() for text in judge(ran)), line


@pytest.mark.parametrize("change", [{"plane": "rail 9"}, {"task": 99}, {"group": 1}], ids=str)
def test_a_task_that_a_rank_was_not_given_is_odd(change):
    tasks = {task.number: task for task in accept_runs.job().tasks}
    cut = {"event": "cut", "rank": 0, **AT, "bytes": 8, "used_s": 1}
    assert parse_event(json.dumps(cut), range(1), 2, tasks) == cut
    with pytest.raises(OddAnswer, match="a task that is not theirs"):
        parse_event(json.dumps({**cut, **change}), range(1), 2, tasks)
