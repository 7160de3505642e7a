"""A sampler's file is data of a stranger: it has the right shape, or its node has no samples."""

import gzip
import json
import random
import zlib
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from tests.unit.helpers import made_samples
from tests.unit.helpers.accept_runs import change, healthy, job, say

from rdmaprov.acceptance.evidence import measure, proof
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks import request
from rdmaprov.acceptance.ranks.plan import Task
from rdmaprov.acceptance.ranks.run import JobRun, NodeRun
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.samples import packed
from rdmaprov.acceptance.samples.digest import bin_edges, digest_samples, into_bins
from rdmaprov.acceptance.samples.fleet import collect_samples
from rdmaprov.acceptance.samples.packed import parse_samples
from rdmaprov.acceptance.samples.track import rail_track
from rdmaprov.acceptance.stages import over_time
from rdmaprov.acceptance.stages import soak as stages_soak
from rdmaprov.acceptance.stages.fleet import straggler_notes
from rdmaprov.boundary import OddAnswer
from rdmaprov.probe.connection import Answer
from rdmaprov.probe.errors import NoAnswer
from rdmaprov.rail_counters.change_points import change_points

STEADY = made_samples.rails([50.0] * 20, [50.0] * 20)


def unpacked(**changes):
    head, _, rest = gzip.decompress(made_samples.pack(STEADY)).partition(b"\n")
    return json.loads(head) | changes, rest


def again(head, rest):
    return gzip.compress(json.dumps(head).encode() + b"\n" + rest)


def test_words_of_four_bytes_become_rates():
    track = rail_track(parse_samples(made_samples.pack(STEADY), 2), 1)
    assert track is not None
    assert track.sent == pytest.approx([50.0] * 20)
    assert track.ends_s[-1] == pytest.approx(2.0)


STILL = ["0/port.port_xmit_data", "0/port.port_rcv_data"]


@pytest.mark.parametrize("still", [[], STILL], ids=["absent", "count nothing"])
def test_rail_without_rdma_counters_has_those_of_its_network_device(still):
    columns = {"0/netdev.tx_bytes": [10**8] * 9, "0/netdev.rx_bytes": [0] * 9}
    track = rail_track(parse_samples(made_samples.pack(columns, still=still), 1), 0)
    assert track is not None
    assert track.sent == pytest.approx([1.0] * 9)


def test_rail_that_was_read_and_sent_nothing_is_known():
    node = parse_samples(made_samples.pack({}, 9, still=STILL), 2)
    track = rail_track(node, 0)
    assert track is not None
    assert track.sent == [0.0] * 9
    assert rail_track(node, 1) is None


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "incomplete"),
        (b"plain text", "no gzip"),
        (made_samples.pack(STEADY)[:-9], "incomplete"),
        (made_samples.pack(STEADY) + b"more", "incomplete"),
        (b"\0" * (packed.MOST_PACKED + 1), "exceed 512 KiB"),
        (gzip.compress(b"\0" * (packed.MOST_INFLATED + 1)), "exceed 32 MiB"),
        (gzip.compress(b"no line", mtime=0), "no head"),
        (gzip.compress(b'{"wall": 1}\n', mtime=0), "shape"),
        (made_samples.pack({"2/x": [1]}), "not asked for"),
        (made_samples.pack({"0/x": [1]}, still=["0/x"]), "twice"),
        (made_samples.pack({"0/x": [1]}, times=[0]), "time"),
        (made_samples.pack({"0/x": [1] * 2}, times=[43_200_000_001] * 2, lasted_us=1), "time"),
        (made_samples.pack({"0/x y": [1]}), "columns/0"),
        (made_samples.pack({"0/../x": [1]}), "columns/0"),
        (made_samples.pack(STEADY, cpu_s=-1), "cpu_s"),
        (made_samples.pack(STEADY, extra=1), "shape"),
        (made_samples.pack(STEADY, wall=float("nan")), "wall/0"),
    ],
)
def test_odd_file_is_refused(data, why):
    with pytest.raises(OddAnswer, match=why):
        parse_samples(data, 2)


def test_columns_must_fill_the_file():
    head, rest = unpacked()
    assert parse_samples(again(head, rest), 2).lasted_s == pytest.approx(2.0)
    for wrong in (rest[:-8], rest + b"\0" * 8):
        with pytest.raises(OddAnswer, match="incomplete"):
            parse_samples(again(head, wrong), 2)


def test_small_file_that_inflates_without_end_is_not_inflated():
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = b"".join(bomb.compress(b"\0" * (1 << 20)) for _ in range(200)) + bomb.flush()
    assert len(data) < packed.MOST_PACKED
    with pytest.raises(OddAnswer, match="exceed 32 MiB"):
        parse_samples(data, 2)


def test_rate_beyond_any_port_is_refused():
    data = made_samples.pack(made_samples.rails([20_000.0] * 5))
    with pytest.raises(OddAnswer, match="GB/s"):
        digest_samples("n0", data, 1, together=True)


def test_odd_and_absent_files_are_missing_nodes():
    files = {"n0": made_samples.pack(STEADY), "n1": b"", "n2": b"odd"}
    fleet = collect_samples(files, dict.fromkeys(files, 2), together=True)
    assert [node.node for node in fleet.nodes] == ["n0"]
    assert sorted(fleet.missing) == ["n1", "n2"]


def test_bins_share_out_what_lies_between_reads():
    columns = made_samples.rails([8.0, 0.0, 8.0, 8.0])
    track = rail_track(parse_samples(made_samples.pack(columns), 1), 0)
    assert track is not None
    # Time 0 lies in the middle of the first bin, which is not whole, and nor is the last.
    edges = bin_edges(track.ends_s, offset=0.05, step=0.1, bins=5)
    found = list(into_bins(track, edges, step=0.1, bins=5))
    assert found[1:4] == pytest.approx([4.0, 4.0, 8.0])
    assert [str(value) for value in (found[0], found[4])] == ["nan", "nan"]


RATES = [0.0] * 5 + [45.0] * 60 + [0.0] * 5
RAILS = 4


@pytest.fixture
def result():
    made = job(4)
    sampled = dict.fromkeys(made.nodes, ({"netdev": "", "pci": ""},) * RAILS)
    ran = healthy(replace(made, sampled=sampled))
    for node in ran.nodes.values():
        node.samples = made_samples.pack(made_samples.rails(*[RATES] * RAILS))
    return GateResult(made.nodes, "nccl", ran=ran)


def site(result, backend="nccl"):
    nodes = tuple(SimpleNamespace(name=name, compute_rails=range(RAILS)) for name in result.nodes)
    return cast("GateSite", SimpleNamespace(nodes=nodes, backend=backend))


def judge(result, backend="nccl"):
    kept = {}
    over_time.judge_samples(
        result, site(result, backend), lambda name, text: kept.update({name: text})
    )
    return kept


def test_healthy_run_has_rates_and_no_findings(result):
    kept = judge(result)
    assert (result.findings, result.notes) == ([], [])
    lines = [json.loads(line) for line in kept["samples.jsonl"].splitlines()]
    assert [line["node"] for line in lines] == list(result.nodes)
    assert max(rate or 0 for rate in lines[0]["sent_gb_s"][2]) == pytest.approx(45)
    data = result.as_data()["samples"]
    assert len(data["rails"]) == 4 * RAILS
    assert data["missing"] == []


def test_stopped_rail_is_a_finding_with_nccl_alone(result):
    result.ran.nodes["n1"].samples = made_samples.pack(
        made_samples.rails(RATES, RATES, [*RATES[:20], *[0.0] * 12, *RATES[32:]], RATES)
    )
    judge(result)
    assert [(each.node, each.rail, each.proven) for each in result.findings] == [("n1", 2, True)]
    result.findings.clear()
    judge(result, "gloo")  # it tests one rail after another
    assert result.findings == []


def test_odd_samples_are_a_note_and_no_finding(result):
    result.ran.nodes["n2"].samples = b"odd"
    judge(result)
    assert result.findings == []
    assert result.notes == ["no counters over time of n2: its samples are no gzip file"]
    assert result.as_data()["samples"]["missing"] == ["n2"]


def test_run_without_any_samples_says_so(result):
    for node in result.ran.nodes.values():
        node.samples = b""
    assert judge(result) == {}
    assert result.notes == ["no counters over time of n0, n1, n2, n3: it returned no samples"]
    assert result.as_data()["samples"] is None


def test_job_that_samples_nothing_adds_nothing(result):
    result.ran.job = replace(result.ran.job, sampled={})
    judge(result)
    assert (result.notes, result.samples) == ([], None)


def test_soak_that_slows_down_is_a_finding(result):
    rates = [0.0] * 5 + [45.0] * 60 + [38.0] * 60 + [0.0] * 5
    for node in result.ran.nodes.values():
        node.samples = made_samples.pack(made_samples.rails(*[rates] * RAILS))
    result.ran.job = replace(result.ran.job, planes=result.ran.job.planes[:1])
    assert [each.level for each in over_time.soak_findings(site(result), result.ran)] == ["fleet"]
    judge(result)  # in a sweep, sizes differ
    assert result.findings == []


@pytest.mark.parametrize(
    "answer",
    [Answer(1, "", "no such file"), Answer(0, "no base64!", ""), NoAnswer("n0: no answer", "x")],
)
def test_node_without_a_file_has_no_samples(answer):
    assert request.samples_from(answer) == b""


def test_few_files_are_fetched_at_once():
    asked = list(request.fetch_commands({f"n{number}": "/run/x" for number in range(130)}))
    assert [len(each) for each in asked] == [64, 64, 2]


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
            us = {"median_us": 100.0 + rank + interval, "min_us": 90.0, "max_us": 200.0}
            say(ran, rank, "soak", **at, interval=interval, count=5, **us)
    assert measure.soak_times(ran) == {0: [103.0, 104.0]}


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
