"""When a series changed: a drift and a level are told apart, noise is neither."""

from __future__ import annotations

import random

import pytest

from rdmaprov.history.shift import shifts, trend

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
    values = series(12, seed=2) + series(12, step=0.2, at=0, seed=3) + series(12, seed=4)
    down, up = shifts(values)
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
    found = sum(bool(shifts(series(30, noise=noise, seed=seed))) for seed in range(300))
    assert found <= 2


@pytest.mark.parametrize("drift", [0.0, 0.02, -0.02])
def test_trend_is_the_slope_by_run(drift):
    assert trend(series(20, drift=drift, at=0)) == pytest.approx(-drift, abs=0.006)


def test_trend_of_one_value_is_none():
    assert trend([46.0]) == trend([]) == 0.0
