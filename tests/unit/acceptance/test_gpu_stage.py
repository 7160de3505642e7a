"""The stage `gpu`: which GPU is slow, wrong or shared, and where nobody is accused."""

import json
from copy import deepcopy
from pathlib import Path

import pytest
from tests.madeup.accept import accept
from tests.madeup.faults import kinds
from tests.madeup.gpus import GPU_FAULTS
from tests.madeup.shape import usual_shape
from tests.madeup.trials import judge
from tests.tables import cases
from tests.unit.helpers.live_ranks import made_site

from rdmaprov.acceptance.agent.gpu import _rise
from rdmaprov.acceptance.ranks import jobs
from rdmaprov.acceptance.ranks.events import parse_event
from rdmaprov.acceptance.ranks.run import JobRun, NodeRun
from rdmaprov.acceptance.stage_report import StageReport
from rdmaprov.acceptance.stages import gpu as stage
from rdmaprov.acceptance.stages.measured_gpu import peaks
from rdmaprov.boundary import OddAnswer

REAL = Path(__file__).parents[2] / "fixtures" / "gpu_stage"
STAGES = ("state", "preflight", "gpu")


def event(name="h200-good", **changed):
    return {**json.loads((REAL / f"{name}.json").read_text()), **changed}


def report_of(tmp_path, events, others=()):
    """Return the report of one node for each event; `others` are the first one's in its place."""
    site = made_site(tmp_path, len(events), "nccl")
    runs = []
    for node, said in zip(site.nodes, events, strict=True):
        ran = JobRun(jobs.alone_job(site, node))
        ran.nodes[node.name] = NodeRun(rc=0, left=())
        for rank in range(ran.job.world):
            for each in others if others and node is site.nodes[0] else [said]:
                ran.take_event({**deepcopy(each), "rank": rank})
        runs.append(ran)
    report = StageReport("gpu")
    stage.judge(report, runs)
    return report


def test_real_gpus_that_are_good_are_good_each_by_its_model(tmp_path):
    report = report_of(tmp_path, [*[event()] * 4, *[event("h100-good")] * 3])
    assert report.findings == []
    assert (
        "gpu: 2 models, each judged by itself: NVIDIA H200, NVIDIA H100 80GB HBM3" in report.notes
    )
    assert report.detail is not None
    device = report.detail["devices"][0]
    assert (device["tflops"], device["memory_gb_s"], device["wrong"]) == (654.04, 4258.543, 0)
    assert device["state"] == "1440 MHz, 692 W, 62 °C"


def test_a_real_gpu_that_computes_wrong_is_named(tmp_path):
    report = report_of(tmp_path, [event(), event("h200-wrong"), event()])
    wrong = [each for each in report.findings if each.kind == "gpu.wrong"]
    assert {(each.node, each.level, each.proven) for each in wrong} == {("n2", "rank", True)}
    assert {each.node for each in report.findings} == {"n2"}
    assert "computes wrong values: 20 repeated, in 24 products" in wrong[0].what


def test_a_real_gpu_that_another_process_uses_is_not_judged(tmp_path):
    report = report_of(tmp_path, [event(), event("h200-shared"), event(), event()])
    assert {(e.kind, e.node, e.proven) for e in report.findings} == {("gpu.disturbed", "n2", False)}


@pytest.mark.parametrize(("changed", "kind"), cases(__file__, "a_slow_part_is_named"))
def test_a_slow_part_is_named(tmp_path, changed, kind):
    report = report_of(tmp_path, [event(**changed), *[event()] * 5])
    assert {(each.kind, each.node) for each in report.findings} == {(kind, "n1")}
    assert ("x8 of x16 lanes" in report.findings[0].what) == ("link" in changed)


def test_a_link_that_sends_packets_again_is_named_by_what_it_did_meanwhile(tmp_path):
    bad, few = event(replays=5000), event(replays=stage._MOST_REPLAYS)
    report = report_of(tmp_path, [bad, few, event(replays=0)])
    assert {(e.kind, e.node, e.level, e.proven) for e in report.findings} == {
        ("gpu.pcie", "n1", "rank", True)
    }
    assert "sent 5,000 packets again" in report.findings[0].what
    assert [note for note in report.notes if "replays" in note] == []


def test_replays_that_a_driver_does_not_tell_are_not_verified(tmp_path):
    report = report_of(tmp_path, [event(), event(replays=-1), event(replays=0)])
    assert report.findings == []
    (note,) = report.notes
    assert "replays are not verified of" in note
    assert "(n1, n2)" in note


@pytest.mark.parametrize(
    ("before", "after", "rise"), [(4, 9, 5), (7, 7, 0), (-1, 9, -1), (9, -1, -1), (9, 2, -1)]
)
def test_replays_are_counted_between_two_readings(before, after, rise):
    assert _rise(before, after) == rise


def test_links_that_differ_by_a_switch_accuse_nobody(tmp_path):
    slower = event(to_gpu_gb_s=44.0, from_gpu_gb_s=43.0)
    assert report_of(tmp_path, [slower, *[event()] * 5]).findings == []


def test_a_model_that_is_not_known_is_judged_by_its_peers(tmp_path):
    report = report_of(tmp_path, [event(device="NVIDIA X1")] * 3)
    assert report.findings == []
    assert "gpu: what a NVIDIA X1 can do is not known: judged by its peers" in report.notes


def test_a_fleet_that_throttles_is_no_node_s_fault(tmp_path):
    hot = event()
    for span in hot["spans"]:
        span["reasons"] = 0x40
    found = report_of(tmp_path, [hot] * 3).findings
    assert [(each.kind, each.level) for each in found] == [("gpu.throttled", "fleet")]
    assert "HW thermal slowdown" in found[0].what


def test_a_gpu_that_does_not_end_is_named_and_no_victim(tmp_path):
    late = {"event": "late", "phase": "gpu", "limit_s": 180.0, "entered": 0}
    hung = {**late, "where": "/torch/cuda/__init__.py:1040 synchronize"}
    site = made_site(tmp_path, 2, "nccl")
    ran = JobRun(jobs.alone_job(site, site.nodes[0]))
    ran.nodes["n1"] = NodeRun(rc=1, left=())
    ran.take_event({**hung, "rank": 0})
    if ran.job.world > 1:
        ran.take_event({**late, "where": "/torch/distributed/ store: waits for rank -1", "rank": 1})
    report = StageReport("gpu")
    stage.judge(report, [ran])
    assert [(e.kind, e.node, e.part) for e in report.findings] == [("gpu.hung", "n1", "GPU 0")]


def test_a_rank_that_says_nothing_is_unknown(tmp_path):
    report = report_of(tmp_path, [event()] * 2, others=[{"event": "hello", "pid": 1}])
    assert [(e.kind, e.nodes, e.proven) for e in report.findings] == [
        ("gpu.unmeasured", ("n1",), False)
    ]


@pytest.mark.parametrize("name", GPU_FAULTS)
def test_a_made_up_fault_is_named(name):
    done = accept(usual_shape(8), GPU_FAULTS[name], 1, stages=STAGES)
    trial = judge(name, done, whole_gate=False)
    assert (trial.false, trial.named) == (0, bool(done.fleet.truths))
    assert trial.accepted != trial.named


def test_the_ranks_of_a_node_are_started_once_for_gpu_and_host():
    stages = (*STAGES, "host")
    good = accept(usual_shape(8), None, 1, stages=stages)
    assert (good.sessions, good.result.findings) == (1, [])
    assert [each.state for each in good.result.stages[1:]] == ["passed"] * 3
    assert sum(each.gb_s > 0 for each in good.result.stages[-1].numbers) == 8

    slow = accept(usual_shape(8), GPU_FAULTS["hot-gpu"], 1, stages=stages)
    assert (slow.sessions, len(slow.result.stages[-1].numbers)) == (1, 7)


def test_where_ranks_of_a_node_failed_in_gpu_the_others_are_started_anew_for_host():
    [absent] = [each for each in kinds() if each.name == "absent-rank"]
    done = accept(usual_shape(8), absent, 1, stages=(*STAGES, "host"))
    gpu, host = done.result.stages[-2:]
    assert [each.kind for each in gpu.findings] == ["rank.absent"]
    assert (done.sessions, host.findings, len(host.numbers)) == (2, [], 7)


def test_gloo_has_no_gpu(tmp_path):
    report = stage.run_gpu(made_site(tmp_path, 2, "gloo"), None)  # type: ignore[arg-type]
    assert report.text == "gpu: skipped: no GPU takes part (backend gloo)"


def test_what_a_rank_says_is_checked():
    said = event()
    assert parse_event(json.dumps(said), range(1), 1) == said
    for key, value in (("device", "x" * 200), ("pci", "../.."), ("spans", []), ("wrong", [1])):
        with pytest.raises(OddAnswer):
            parse_event(json.dumps({**said, key: value}), range(1), 1)


@pytest.mark.parametrize(
    ("name", "tflops", "gb_s"), cases(__file__, "models_are_known_by_what_the_driver_calls_them")
)
def test_models_are_known_by_what_the_driver_calls_them(name, tflops, gb_s):
    assert peaks(name) == (tflops, gb_s)
