"""A fleet's own history: a drop is seen above the floor, noise is not."""

import pytest

from rdmaprov.bandwidth import history
from rdmaprov.bandwidth.fabric import Fabric
from rdmaprov.bandwidth.history import HistoryError, Measurement, append, drop, read

KIND = history.kind(Fabric(16, 8, 8, 400), 8 << 30)


def results(*bandwidths, kind=KIND):
    return [Measurement(f"2026-01-{day + 1:02}", kind, gb_s) for day, gb_s in enumerate(bandwidths)]


def now(gb_s, kind=KIND):
    return Measurement("2026-02-01", kind, gb_s)


STEADY = results(350, 351, 349, 350, 352, 350)


def test_five_percent_below_the_median_is_a_drop():
    found = drop(STEADY, now(332.5))
    assert found is not None
    assert str(found) == "5 % below the median of the last 6 runs of this kind, 350 GB/s"


@pytest.mark.parametrize("gb_s", [333, 350, 400])
def test_less_than_five_percent_is_no_drop(gb_s):
    assert drop(STEADY, now(gb_s)) is None


def test_few_results_say_nothing():
    assert drop(STEADY[: history.MIN_RESULTS - 1], now(100)) is None


def test_results_of_another_kind_do_not_count():
    assert drop(results(*[350] * 10, kind="4x8 8x400G"), now(100)) is None


def test_bad_runs_do_not_move_the_median():
    assert drop([*STEADY, *results(20, 30, 0)], now(330)) is not None


def test_results_that_vary_need_more_than_five_percent():
    varying = results(300, 350, 320, 380, 340, 310, 370)
    assert drop(varying, now(320)) is None
    assert drop(varying, now(100)) is not None


def test_only_the_last_results_count():
    assert drop([*results(*[700] * 100), *results(*[350] * 50)], now(349)) is None


def test_what_is_appended_is_read(tmp_path):
    path = tmp_path / "history/acceptance.jsonl"
    for result in STEADY:
        append(path, result)
    assert read(path) == tuple(STEADY)


def test_no_file_is_no_history(tmp_path):
    assert read(tmp_path / "none") == ()


@pytest.mark.parametrize("rest", ['{"time": "2026', '{"time": "x", "kind": "y", "busbw_gb_s": 1}'])
def test_a_line_that_was_cut_is_left_out_and_replaced(tmp_path, rest):
    path = tmp_path / "history"
    append(path, STEADY[0])
    with path.open("a") as file:
        file.write(rest)
    assert read(path) == (STEADY[0],)
    append(path, STEADY[1])
    assert read(path) == tuple(STEADY[:2])


@pytest.mark.parametrize(
    "line", ["", "{}", "[1]", "null", '{"time": 1, "kind": 2, "busbw_gb_s": []}']
)
def test_a_line_that_is_no_result_is_named(tmp_path, line):
    path = tmp_path / "history"
    append(path, STEADY[0])
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(HistoryError, match=":2: not a result"):
        read(path)
