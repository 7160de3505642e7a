"""Settings of NCCL measured by jobs on a made-up fleet, and what `tune` says of them."""

from __future__ import annotations

import itertools
import json

import pytest
from tests.madeup.faults import kinds
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.nodes import MadeUpNodes
from tests.madeup.runner import MadeUpRunner
from tests.madeup.shape import FleetShape
from tests.madeup.site import site_nodes

from rdmaprov.acceptance.live.tune_jobs import TuneJobs, ready_site, sizes_line, tune_sizes
from rdmaprov.cli.tune_run import answer_lines, result_as_data, trial_line
from rdmaprov.tuner.files import site_lines
from rdmaprov.tuner.model import Trial, TunePlan, TuneResult
from rdmaprov.tuner.plan import Tuner
from rdmaprov.tuner.settings import DEFAULTS, fleet_setting, size_setting, usual_settings

KINDS = {kind.name: kind for kind in kinds(held_out=True)}
SHAPE = FleetShape(4, gpus=4, rails=4, per_leaf=4)
PAIRS = fleet_setting("4 queue pairs", NCCL_IB_QPS_PER_CONNECTION="4")
MIB = 1 << 20


class Faster:
    """A runner on whose fleet a variable makes messages of a size and more faster."""

    def __init__(self, runner, variable, least, factor):
        self.runner, self.variable, self.least, self.factor = runner, variable, least, factor

    def run(self, jobs, limit_s=None):
        runs = self.runner.run(jobs, limit_s)
        for ran in runs:
            own = next(iter(ran.job.environment.values()))
            if own.get(self.variable[0]) == self.variable[1]:
                ran.events[:] = [self.faster(event) for event in ran.events]
        return runs

    def faster(self, event):
        if event["event"] != "row" or event["bytes"] < self.least:
            return event
        return {**event, "median_us": event["median_us"] / self.factor}


def made_up(kind=None, shape=SHAPE):
    fleet = MadeUpFleet(shape, KINDS[kind] if kind else None, 0, 0.03)
    site, backend, found = ready_site(MadeUpNodes(fleet), site_nodes(shape))
    assert (backend, found) == ("nccl", [])
    return site, MadeUpRunner(fleet)


def test_a_job_has_a_setting_on_every_node_beside_what_all_jobs_have():
    site, runner = made_up()
    plain, other = (TuneJobs(site, runner.run, (MIB,)).job(s) for s in (DEFAULTS, PAIRS))
    for name in other.nodes:
        assert other.environment[name] == {**plain.environment[name], **PAIRS.environment}
    assert [task.collective for task in other.tasks] == ["all_reduce"]


def test_a_job_measures_every_size_and_its_values_are_right():
    site, runner = made_up()
    told = []
    jobs = TuneJobs(site, runner.run, (MIB, 8 * MIB), lambda *what: told.append(what))
    trial = jobs.measure(DEFAULTS)
    assert trial is not None
    assert trial.is_right
    assert set(trial.gb_s) == {MIB, 8 * MIB}
    assert all(gb_s > 0 for gb_s in trial.gb_s.values())
    assert told == [(DEFAULTS, trial)]


def test_wrong_values_are_no_measurement():
    site, runner = made_up("adding-wrong")
    trial = TuneJobs(site, runner.run, (MIB,)).measure(DEFAULTS)
    assert trial is not None
    assert not trial.is_right


def test_ranks_that_fail_are_no_measurement():
    site, runner = made_up()

    def fail(jobs):
        (ran,) = runner.run(jobs)
        next(iter(ran.nodes.values())).rc = 1
        return [ran]

    assert TuneJobs(site, fail, (MIB,)).measure(PAIRS) is None


def test_a_plan_over_jobs_finds_what_is_faster():
    site, runner = made_up()
    sizes = (MIB, 64 * MIB, 1024 * MIB)
    faster = Faster(runner, ("NCCL_IB_QPS_PER_CONNECTION", "4"), 64 * MIB, 1.5)
    buffers = fleet_setting("large buffers", NCCL_BUFFSIZE="8388608")
    plan = TunePlan((PAIRS, buffers), sizes)
    result = Tuner(plan, TuneJobs(site, faster.run, sizes).measure).run()
    assert {gain.setting for gain in result.of_fleet} == {PAIRS}
    assert {gain.size for gain in result.of_fleet} == {64 * MIB, 1024 * MIB}


def test_sizes_are_each_eight_times_the_last_up_to_the_largest():
    site, _ = made_up()
    chosen = tune_sizes(site, ())
    assert chosen[0] >= 64 << 10
    assert {other // one for one, other in itertools.pairwise(chosen)} == {8}
    assert tune_sizes(site, (MIB, 2 * MIB, 4 * MIB, 8 * MIB)) == (MIB, 8 * MIB)
    assert sizes_line(site, (MIB,)) == "4 nodes × 4 ranks over nccl; sizes: 1 MiB"


def test_nodes_that_are_not_ready_say_why():
    fleet = MadeUpFleet(SHAPE, None, 0, 0.03)
    fleet.condition.unreachable.add(2)
    site, _, found = ready_site(MadeUpNodes(fleet), site_nodes(SHAPE))
    assert site is None
    assert [each.node for each in found] == [SHAPE.names[2]]


def test_defaults_whose_jobs_all_fail_end_the_plan_after_one_round():
    result = Tuner(TunePlan(usual_settings(True, True), (MIB,)), lambda _setting: None).run()
    assert result.is_default
    assert result.jobs <= 2 * (len(usual_settings(True, True)) + 1)


def test_answer_of_nothing_better_is_to_leave_the_defaults():
    [line] = answer_lines(TuneResult(jobs=180), "")
    assert line.startswith("leave the defaults")
    assert "180 jobs" in line


def test_answer_of_wrong_values_is_no_setting():
    result = TuneResult(refused={DEFAULTS: "wrong values"}, jobs=33)
    assert list(answer_lines(result, "")) == [
        "the nodes give wrong values without any setting. Run: rdmaprov accept SITE"
    ]


def test_answer_names_gains_and_what_was_dropped():
    site, runner = made_up()
    faster = Faster(runner, ("NCCL_IB_QPS_PER_CONNECTION", "4"), 0, 1.5)
    result = Tuner(TunePlan((PAIRS,), (MIB,)), TuneJobs(site, faster.run, (MIB,)).measure).run()
    result.refused[size_setting("Tree", "LL", 8)] = "its job failed"
    lines = list(answer_lines(result, site_lines(result.of_fleet)))
    assert lines[0] == "dropped: Tree, LL, 8 channels: its job failed"
    assert '  NCCL_IB_QPS_PER_CONNECTION: "4"' in lines
    data = result_as_data(result, [(PAIRS, Trial({MIB: 1.0})), (DEFAULTS, None)])
    assert json.loads(json.dumps(data))["of_fleet"][0]["bytes"] == MIB
    assert data["trials"][1] == {"setting": DEFAULTS.name, "failed": True}


@pytest.mark.parametrize(
    ("trial", "says"),
    [
        (None, "failed"),
        (Trial({}, is_right=False), "wrong values"),
        (Trial({}), "no size was measured"),
        (Trial({MIB: 12.0, 8 * MIB: 120.0}), "120 GB/s at 8 MiB"),
    ],
)
def test_line_of_a_job(trial, says):
    assert trial_line(7, PAIRS, trial) == f"job 7: 4 queue pairs: {says}"
