"""What numbers and counters of a run say."""

import json
import random
from pathlib import Path

import pytest
from tests.unit.helpers.accept_runs import change, found, healthy, job

from rdmaprov.acceptance.at_fault import wrong_sums
from rdmaprov.acceptance.evidence import measure
from rdmaprov.acceptance.paths import judge as paths
from rdmaprov.acceptance.ranks.plan import JobPlane
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.bandwidth import outliers

RECORDED = Path(__file__).parents[2] / "fixtures/gloo/links-of-four-nodes.jsonl"


@pytest.mark.parametrize(
    "kind", [paths.lossy_paths, paths.stray_traffic, paths.slow_rails, wrong_sums.findings]
)
@pytest.mark.parametrize("count", [2, 3, 9])
def test_a_healthy_run_has_no_findings(kind, count):
    assert found(kind, healthy(job(count))) == []


def test_busbw_is_that_of_nccl_tests():
    # 4 ranks, 1 MiB in 1 ms: algbw 1.048576 GB/s, times 2 · 3 / 4.
    row = measure.largest_row(measure.rows(healthy()), "rail 0")
    assert row is not None
    assert row.algbw_gb_s == pytest.approx(1.048576)
    assert row.busbw_gb_s == pytest.approx(1.572864)


def test_a_size_that_a_rank_does_not_tell_is_no_row():
    ran = healthy()
    ran.events = [e for e in ran.events if (e["rank"], e.get("bytes")) != (3, 1 << 20)]
    assert {row.bytes for row in measure.rows(ran)} == {8}


def test_the_slowest_rank_counts():
    ran = healthy()
    change(ran, "row", lambda e: e["rank"] == 2 and e["bytes"] == 8, median_us=5000.0)
    assert next(r for r in measure.rows(ran) if r.bytes == 8 and r.in_place).median_us == 5000.0


def test_who_waits_least_comes_last():
    ran = healthy()
    change(ran, "waits", lambda e: e["rank"] != 2, us=[3000.0] * 9)
    assert set(measure.stragglers(ran, "rail 0")) == {2}
    assert measure.lateness(ran, "rail 0")[2] == pytest.approx(2896, abs=10)


def test_loss_names_sender_rail_and_receiver():
    ran = healthy()
    links = [{"from": "198.18.1.3", "to": "198.18.1.1", "segments": 50_000, "again": 600}]
    change(ran, "links", lambda e: e["rank"] == 2 and e["plane"] == "rail 1", links=links)
    (finding,) = paths.lossy_paths(ran)
    assert (finding.node, finding.rail) == ("n2", 1)
    assert "sends to n0: 1.2 % TCP retransmissions (1200 of 100000 segments" in finding.what


def test_burst_that_good_nodes_lost_once_is_no_loss():
    addresses = {name: f"10.78.1.{name[1:]}" for name in ("n1", "n2", "n3", "n4")}
    plane = JobPlane("rail 1", 1, dict.fromkeys(addresses, "rail1"), addresses)
    ran = JobRun(job(nodes=tuple(addresses), planes=(plane,)))
    ran.events = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    assert found(paths.lossy_paths, ran) == []
    # The same loss once more, between the same nodes in another task, is the link's.
    worst = max((e for e in ran.events if e["rank"] == 0), key=lambda e: e["links"][0]["again"])
    ran.events.append({**worst, "task": worst["task"] + 1})
    assert found(paths.lossy_paths, ran) == [("n1", 1)]


def test_timers_that_fired_early_are_no_loss():
    ran = healthy()
    links = [{"from": "198.18.1.3", "to": "198.18.1.1", "segments": 50_000, "again": 90}]
    change(ran, "links", lambda e: e["rank"] == 2 and e["plane"] == "rail 1", links=links)
    assert found(paths.lossy_paths, ran) == []


def test_data_that_left_by_another_device_is_named():
    ran = healthy()
    where = {"ens1": 3 * 10**8, "eth0": 8 * 10**8}
    change(ran, "moved", lambda e: e["rank"] == 1 and e["plane"] == "rail 1", bytes=where)
    (finding,) = paths.stray_traffic(ran)
    assert (finding.node, finding.rail) == ("n1", 1)
    assert "most left by eth0" in finding.what


@pytest.mark.parametrize("count", [2, 5])
def test_a_slow_rail_names_who_sends_slowly(count):
    ran = healthy(job(count))
    slow = {"median_us": 9000.0, "p99_us": 9000.0, "min_us": 8000.0}
    change(ran, "row", lambda e: e["plane"] == "rail 1", **slow)
    change(ran, "pair", lambda e: e["plane"] == "rail 1" and e["rank"] == 1, gb_s=0.1)
    (finding,) = paths.slow_rails(ran)
    assert (finding.node, finding.rail) == ("n1", 1)
    assert "sends to n0" in finding.what
    assert "at 100 MB/s, on other rails 1 GB/s" in finding.what


STAR = [(a, b) for other in "bcd" for a, b in (("a", other), (other, "a"))]


@pytest.mark.parametrize(
    ("known", "bad", "who"),
    [
        ([("a", "b"), ("b", "a")], ["ab"], {("a", "sends", False)}),
        (STAR, ["ba"], {("b", "sends", True)}),
        (STAR, ["ab"], {("b", "receives", True)}),
        (STAR, ["ab", "ac", "ad"], {("a", "sends", True)}),
        (STAR, ["ba", "ca", "da"], {("a", "receives", True)}),
        (STAR, ["ab", "ba"], {("b", "sends", True), ("b", "receives", True)}),
        (STAR, ["ba", "ca"], {("b", "sends", True), ("c", "sends", True)}),
    ],
)
def test_which_end_of_a_bad_direction_is_to_blame(known, bad, who):
    found = paths.faulty_sides([(ends[0], ends[1]) for ends in bad], known)
    assert {(side.node, side.does, side.sure) for side in found} == who


@pytest.mark.parametrize(
    ("slow", "who"),
    [({"min_us": 9000.0}, [("", 0)]), ({"median_us": 9000.0, "p99_us": 99000.0}, [])],
    ids=["always", "in the median"],
)
def test_a_slow_rail_without_a_slow_pair_names_the_rail_alone(slow, who):
    ran = healthy()
    change(ran, "row", lambda e: e["plane"] == "rail 0", **slow)
    assert found(paths.slow_rails, ran) == who


@pytest.mark.parametrize(("gb_s", "who"), [(0.16, []), (0.05, [("n5", 1)])])
def test_one_node_that_sends_slowly_stands_out_and_bursts_accuse_nobody(gb_s, who):
    ran = healthy(job(8))
    change(ran, "pair", lambda e: e["plane"] == "rail 1" and e["rank"] == 5, gb_s=gb_s)
    change(ran, "pair", lambda e: e["plane"] == "rail 0" and e["rank"] == 3, gb_s=0.3)
    assert found(paths.slow_rails, ran) == who


@pytest.mark.parametrize("count", [2, 3, 4, 8, 100, 4000])
def test_outliers_are_found_among_any_number(count):
    random.seed(count)
    values = {str(n): random.gauss(100, 3) for n in range(count)}
    values["0"] = 400.0
    assert set(outliers.high(values, 2.0)) == {"0"}


@pytest.mark.parametrize("count", [2, 3, 4, 8, 100, 4000])
def test_long_tails_accuse_nobody(count):
    for seed in range(200 if count < 1000 else 20):
        random.seed(seed)
        values = {str(n): random.lognormvariate(0, 0.15) for n in range(count)}
        assert outliers.high(values, 2.0) == {}


def test_a_third_of_bad_ones_does_not_hide():
    values = {str(n): 100.0 + n for n in range(20)} | {f"bad{n}": 900.0 for n in range(10)}
    assert set(outliers.high(values, 2.0)) == {f"bad{n}" for n in range(10)}
