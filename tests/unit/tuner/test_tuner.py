"""Tuning on a made-up NCCL, search and jobs: what is better is found, noise is not believed."""

import itertools
import json
import math
import random

import pytest
from tests.madeup.faults import kinds
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.nccl import CASES, LARGE, QUEUE_PAIRS, SIZES, SMALL, MadeUpNccl, score
from tests.madeup.nodes import MadeUpNodes
from tests.madeup.runner import MadeUpRunner
from tests.madeup.shape import FleetShape
from tests.madeup.site import site_nodes

from rdmaprov.acceptance.live.tune_jobs import TuneJobs, ready_site, sizes_line, tune_sizes
from rdmaprov.cli.tune_run import answer_lines, result_as_data, site_lines, trial_line
from rdmaprov.tuner.model import Gain, Trial, TunePlan, TuneResult
from rdmaprov.tuner.plan import Tuner, centre, lower_bound
from rdmaprov.tuner.settings import DEFAULTS, NcclSetting, usual_settings

SETTINGS = tuple(usual_settings())
PAIRS = NcclSetting("4 queue pairs", {"NCCL_IB_QPS_PER_CONNECTION": "4"})
LARGE_BUFFERS = NcclSetting("large buffers", {"NCCL_BUFFSIZE": "8388608"})
NOTHING, WORSE = [*CASES][:2]


def tuned(nccl, settings=SETTINGS, sizes=SIZES, seed=0):
    return Tuner(TunePlan(settings, sizes, seed=seed), nccl.measure).run()


@pytest.mark.parametrize("case", [NOTHING, WORSE])
def test_nothing_better_leaves_the_defaults(case):
    """One seed in twenty may believe a gain; five seeds do so in none, for these seeds."""
    found = score(case, range(5))
    assert (found.false, found.default) == (0, 1)


def test_a_setting_of_the_fleet_is_found_at_the_sizes_that_gain():
    result = tuned(MadeUpNccl({QUEUE_PAIRS: dict.fromkeys(LARGE, 0.25)}))
    assert {gain.setting.name for gain in result.of_fleet} == {QUEUE_PAIRS}
    assert {gain.size for gain in result.of_fleet} == set(LARGE)
    assert all(0 < gain.least < gain.share < 0.4 for gain in result.of_fleet)


def test_a_fleet_wide_setting_that_loses_at_other_sizes_is_not_recommended():
    effects = {QUEUE_PAIRS: {**dict.fromkeys(SMALL, -0.3), **dict.fromkeys(LARGE, 0.25)}}
    assert tuned(MadeUpNccl(effects)).of_fleet == []


def test_wrong_values_drop_a_setting_however_fast_it_is():
    result = tuned(MadeUpNccl({QUEUE_PAIRS: dict.fromkeys(LARGE, 0.5)}, wrong=QUEUE_PAIRS))
    assert {setting.name: why for setting, why in result.refused.items()} == {
        QUEUE_PAIRS: "wrong values"
    }
    assert QUEUE_PAIRS not in {gain.setting.name for gain in result.of_fleet}


def test_a_job_that_fails_drops_its_setting_and_no_other():
    nccl = MadeUpNccl()
    result = Tuner(
        TunePlan((PAIRS, LARGE_BUFFERS), SIZES),
        lambda setting: None if setting == LARGE_BUFFERS else nccl.measure(setting),
    ).run()
    assert result.refused == {LARGE_BUFFERS: "its job failed"}


def test_defaults_that_fail_leave_no_gain():
    result = Tuner(
        TunePlan((PAIRS,), SIZES),
        lambda setting: None if setting == DEFAULTS else Trial(dict.fromkeys(SIZES, 1.0)),
    ).run()
    assert result.is_default


def test_wrong_values_of_the_defaults_end_the_plan_at_once():
    def measure(setting):
        return Trial(
            dict.fromkeys(SIZES, 200.0 if setting != DEFAULTS else 100.0), setting != DEFAULTS
        )

    result = Tuner(TunePlan(SETTINGS, SIZES), measure).run()
    assert result.is_default
    assert result.refused == {DEFAULTS: "wrong values"}
    assert result.jobs == len(SETTINGS) + 1


def test_every_block_has_the_defaults_once_and_its_order_differs():
    order = []
    nccl = MadeUpNccl()

    def measure(setting):
        order.append(setting)
        return nccl.measure(setting)

    settings = SETTINGS[:4]
    Tuner(TunePlan(settings, SIZES), measure).run()
    blocks = [order[start : start + 5] for start in range(0, 10, 5)]
    assert all(set(block) == {DEFAULTS, *settings} for block in blocks)
    assert blocks[0] != blocks[1]


def test_drift_between_blocks_is_no_gain():
    """The fleet gets faster all the time; what is measured later is not better for that."""
    speed = itertools.count(1)

    def measure(_setting):
        return Trial(dict.fromkeys(SIZES, 100.0 + 0.01 * next(speed)))

    assert Tuner(TunePlan(SETTINGS, SIZES), measure).run().is_default


def test_fewer_measurements_than_a_grid_of_single_settings_repeated():
    result = tuned(MadeUpNccl({QUEUE_PAIRS: dict.fromkeys(SMALL, 0.25)}))
    assert result.jobs < (len(SETTINGS) + 1) * 10 * 0.75


@pytest.mark.parametrize(
    ("count", "error", "rank"), [(12, 0.05, 18), (10, 0.05, 11), (12, 0.005, 8), (5, 0.05, 1)]
)
def test_bound_is_at_the_critical_rank_of_wilcoxon_s_table(count, error, rank):
    """The published critical values are 17, 10, 7 and 0; the average after them is the bound."""
    values = [math.sqrt(number) for number in range(1, count + 1)]
    pairs = [(a + b) / 2 for i, a in enumerate(values) for b in values[: i + 1]]
    assert lower_bound(values, error) == sorted(pairs)[rank - 1]


def test_too_few_values_have_no_bound():
    assert lower_bound([0.1] * 4, 0.05) == -math.inf
    assert lower_bound([], 0.05) == -math.inf


def test_bound_holds_for_noise_with_long_tails():
    chance = random.Random(7)
    wrong = 0
    for _ in range(1000):
        values = [chance.gauss(0, 1) / max(chance.random(), 0.01) for _ in range(12)]
        wrong += lower_bound(values, 0.05) > 0
    assert wrong <= 70  # three deviations above 50


def test_one_slow_job_does_not_move_the_centre_far():
    assert centre([0.1] * 11 + [-0.3]) == pytest.approx(0.1)


def test_no_usual_setting_takes_nccl_s_choice_by_size_away():
    names = {name for setting in SETTINGS for name in setting.environment}
    assert not [name for name in names if "ALGO" in name or "PROTO" in name or "CTAS" in name]
    assert not [name for name in names if name.endswith("NCHANNELS")]


def test_lines_of_a_site_are_its_variable_with_what_they_gain():
    assert list(site_lines([Gain(PAIRS, 1 << 30, 0.153, 0.098)])) == [
        "# 1 GiB: +15 %, at least +10 %",
        "nccl_environment:",
        '  NCCL_IB_QPS_PER_CONNECTION: "4"',
    ]


KINDS = {kind.name: kind for kind in kinds(held_out=True)}
SHAPE = FleetShape(4, gpus=4, rails=4, per_leaf=4)
MIB = 1 << 20


class Faster:
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
    plan = TunePlan((PAIRS, LARGE_BUFFERS), sizes)
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
    result = Tuner(TunePlan(SETTINGS, (MIB,)), lambda _setting: None).run()
    assert result.is_default
    assert result.jobs <= 2 * (len(SETTINGS) + 1)


def test_answer_of_nothing_better_is_to_leave_the_defaults():
    [line] = answer_lines(TuneResult(jobs=180))
    assert line.startswith("leave the defaults")
    assert "180 jobs" in line


def test_answer_of_wrong_values_is_no_setting():
    assert list(answer_lines(TuneResult(refused={DEFAULTS: "wrong values"}, jobs=33))) == [
        "the nodes give wrong values without any setting. Run: rdmaprov accept SITE"
    ]


def test_answer_names_gains_and_what_was_dropped():
    site, runner = made_up()
    faster = Faster(runner, ("NCCL_IB_QPS_PER_CONNECTION", "4"), 0, 1.5)
    result = Tuner(TunePlan((PAIRS,), (MIB,)), TuneJobs(site, faster.run, (MIB,)).measure).run()
    result.refused[LARGE_BUFFERS] = "its job failed"
    lines = list(answer_lines(result))
    assert lines[0] == "dropped: large buffers: its job failed"
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
