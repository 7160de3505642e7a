"""A soak: when it changed, and who is slow inside each collective."""

from __future__ import annotations

import random

import pytest
from tests.unit.helpers.accept_runs import change, healthy, job, say

from rdmaprov.acceptance.evidence import measure, proof
from rdmaprov.acceptance.ranks.plan import Task
from rdmaprov.acceptance.ranks.run import JobRun, NodeRun
from rdmaprov.acceptance.stages import soak as stages_soak
from rdmaprov.acceptance.stages.fleet import straggler_notes
from rdmaprov.rail_counters.change_points import change_points


def series(*levels, noise=0.01, seed=1):
    """Return noisy values, 60 for each level."""
    rng = random.Random(seed)
    return [rng.gauss(level, noise * level) for level in levels for _ in range(60)]


@pytest.mark.parametrize("levels", [(100, 120), (120, 100), (100, 150, 100), (100, 200, 300)])
@pytest.mark.parametrize("seed", range(20))
def test_points_where_the_level_changes_are_found(levels, seed):
    found = change_points(series(*levels, seed=seed))
    assert len(found) == len(levels) - 1
    assert all(abs(at - 60 * number) <= 2 for number, at in enumerate(found, start=1))


@pytest.mark.parametrize("seed", range(100))
def test_noise_and_single_slow_values_are_no_change(seed):
    values = series(100, 100, 100, seed=seed)
    for place in range(0, 180, 17):
        values[place] *= 10
    assert change_points(values) == []


@pytest.mark.parametrize("seed", range(20))
def test_a_short_spell_of_a_long_soak_is_found(seed):
    values = series(100, 100, 100, seed=seed)
    values[80:90] = [1.3 * value for value in values[80:90]]
    begin, end = change_points(values)
    assert abs(begin - 80) <= 2
    assert abs(end - 90) <= 2


def test_small_drift_and_few_values_are_no_change():
    assert change_points(series(100, 102)) == []
    assert change_points([1.0] * 4 + [9.0] * 4) == []
    assert change_points([]) == []


def test_soak_of_which_a_node_reports_nothing_is_no_proof():
    soak = Task(0, "soak", "rail 0", ((0, 1, 2, 3),), sizes=(8,), soak_s=10.0)
    made = job(2, per_node=2, tasks=(soak,))
    ran = JobRun(made, nodes={name: NodeRun(rc=0, left=()) for name in made.nodes})
    for rank in range(4):
        say(ran, rank, "finished", task=0)
        say(ran, rank, "done")
    at = {"plane": "rail 0", "task": 0, "group": 0, "interval": 0, "count": 5}
    us = {"median_us": 100.0, "min_us": 90.0, "max_us": 200.0}
    say(ran, 0, "soak", **at, **us)
    (found,) = proof.findings(ran)
    assert "rank 2 reported no time of the soak (rail 0)" in found.text
    say(ran, 2, "soak", **at, **us)
    assert proof.is_complete(ran)


def test_interval_has_the_time_of_the_slowest_node():
    ran = healthy()
    at = {"plane": "rail 0", "task": 0, "group": 0}
    for interval in (1, 0):
        for rank in range(4):
            us = {"median_us": 100.0 + rank, "min_us": 90.0, "max_us": 200.0 * (interval + 1)}
            say(ran, rank, "soak", **at, interval=interval, count=5, **us)
    found = [(each.interval, each.median_us, each.max_us) for each in measure.soak(ran)]
    assert found == [(0, 103.0, 200.0), (1, 103.0, 400.0)]


@pytest.mark.parametrize("rank", [0, 3, 7])
def test_rank_that_is_slow_inside_each_collective_is_told_by_its_pairs(rank):
    rounds = [[(0, 1), (2, 3), (4, 5), (6, 7)], [(0, 2), (1, 3), (4, 6), (5, 7)]]
    ran = healthy(job(8, rounds=rounds))
    assert measure.slow_in_collectives(ran) == {}
    change(ran, "pair", lambda event: rank in (event["rank"], event["to"]), reduce_us=20_000.0)
    assert measure.slow_in_collectives(ran) == {rank: 20_000.0}
    # No group of them all shows it.
    assert measure.stragglers(ran, "rail 0") == {}
    (note,) = straggler_notes(ran)
    assert f"rank {rank} on {ran.job.node_of(rank)} is slow inside each collective, 20.0 ms" in note


def test_a_spell_that_lasts_is_found_and_one_slow_interval_is_not():
    times = [100.0 + number % 3 for number in range(60)]
    times[7] = 300.0
    assert list(stages_soak.slow_levels(times, None)) == []
    times[30:40] = [130.0 + number % 3 for number in range(10)]
    [found] = stages_soak.slow_levels(times, 1)
    assert "slower in intervals 30 to 39 of 60" in found.what
    assert "1.30 times as long" in found.what
    assert found.rail == 1


def test_a_soak_that_becomes_a_little_slower_is_no_finding():
    assert list(stages_soak.slow_levels([100.0] * 30 + [106.0] * 30, None)) == []
    assert list(stages_soak.slow_levels([], None)) == []
