"""Training steps: what is asked of ranks, what follows from what they report."""

from __future__ import annotations

import json

import pytest
import yaml
from tests.unit.helpers.gate_sites import made_site
from tests.unit.helpers.training_stages import AT, ROOT

from rdmaprov.acceptance.ranks import events as rank_events
from rdmaprov.acceptance.ranks.events import parse_event
from rdmaprov.acceptance.ranks.jobs import node_counts
from rdmaprov.acceptance.stage_report import parse_stages
from rdmaprov.acceptance.training.plan import (
    CPU_MODEL,
    GPU_MODELS,
    STRATEGIES,
    choose_model,
    training_plan,
)
from rdmaprov.acceptance.training.scaling import communication_us, message_us
from rdmaprov.boundary import OddAnswer
from rdmaprov.inventory.schema import load_shipped
from rdmaprov.sizing.model import Spread
from rdmaprov.sizing.step import StepNeed
from rdmaprov.sizing.traffic import flows

PUBLISHED = yaml.safe_load(
    (ROOT / "tests/fixtures/training/scaling_published.yml").read_text(encoding="utf-8")
)
RUNS = [(each, source["source"]) for source in PUBLISHED for each in source["runs"]]
LEAST_EFFICIENCY = load_shipped().defaults["fabric_training_efficiency"]


# --- what is asked ------------------------------------------------------------------------------


def test_training_is_on_request_and_comes_after_the_fleet():
    assert "training" not in parse_stages("")
    assert parse_stages("training,fleet")[-2:] == ("fleet", "training")


@pytest.mark.parametrize(
    ("count", "wanted"), [(2, (1, 2)), (3, (1, 2, 3)), (8, (1, 2, 4, 8)), (12, (1, 2, 4, 8, 12))]
)
def test_numbers_of_nodes_double_up_to_all_of_them(count, wanted):
    assert node_counts(count) == wanted


def test_each_device_is_alone_first_and_groups_train_side_by_side(tmp_path):
    first, *rest = training_plan(made_site(tmp_path, 6)).job.tasks
    assert (first.collective, len(first.groups)) == ("gemm", 1)
    trains = [
        (len(t.groups), len(t.groups[0]), t.work["strategy"])
        for t in rest
        if t.collective == "train"
    ]
    assert trains == [(n, w, s) for n, w in ((6, 8), (3, 16), (1, 32), (1, 48)) for s in STRATEGIES]
    assert [t.sizes[-1] for t in rest if t.collective == "all_reduce"] == [1 << 30] * 4


def test_gloo_trains_on_each_rail_with_all_nodes_and_needs_no_all_reduce_of_one_rank(tmp_path):
    plan = training_plan(made_site(tmp_path, 4, "gloo"))
    planes = {(plan.nodes_of(t), t.plane) for t in plan.tasks("train")}
    assert planes == {(1, "rail 0"), (2, "rail 0"), (4, "rail 0"), (4, "rail 1")}
    assert {plan.nodes_of(t) for t in plan.tasks("all_reduce")} == {2, 4}


@pytest.mark.parametrize(
    ("free_gib", "model"), [(78, 0), (56, 1), (38, 1), (22, 2), (8, 2), (1, 2)]
)
def test_the_largest_model_that_fits_is_trained(free_gib, model):
    assert choose_model("nccl", free_gib << 30) is GPU_MODELS[model]
    assert choose_model("gloo", 0) is CPU_MODEL


def test_sizes_of_the_models():
    """Of the largest: 16 blocks of 12 h², and two tables of 32,000 × h; 6 operations a weight."""
    model = GPU_MODELS[0]
    assert model.parameters == 16 * (12 * 4096**2 + 2 * 4096) + 4096 * (64_000 + 1)
    assert model.gradient_bytes == 2 * model.parameters
    weights = 16 * 12 * 4096**2 + 32_000 * 4096
    assert model.flops == 8192 * (6 * weights + 6 * 16 * 4096 * 4096)


STEP = {
    **AT,
    "event": "step",
    "mode": "alone",
    "count": 5,
    "median_us": 5.0,
    "best_us": 4.0,
    "worst_us": 9.0,
    "own_us": 5.0,
    **{f"{name}_us": 1.0 for name in rank_events.STEP_PHASES},
}
GEMM = {
    **AT,
    "event": "gemm",
    "flops": 2,
    "count": 5,
    "median_us": 5.0,
    "best_us": 4.0,
    "cpu_us": 3.0,
}


@pytest.mark.parametrize("event", [STEP, GEMM, {**AT, "event": "lacks", "what": "fully_shard"}])
def test_what_ranks_report_of_training_is_taken(event):
    assert parse_event(json.dumps(event), range(1), 2) == event


@pytest.mark.parametrize(
    "event",
    [
        {**STEP, "mode": "asleep"},
        {**STEP, "median_us": 0},
        {**STEP, "data_us": -1},
        {**STEP, "backward_us": float("nan")},
        {**GEMM, "flops": 0},
        {**GEMM, "cpu_us": 0},
        {**GEMM, "best_us": "4"},
    ],
    ids=str,
)
def test_what_no_rank_reports_of_training_is_odd(event):
    with pytest.raises(OddAnswer):
        parse_event(json.dumps(event), range(1), 2)


# --- prediction ---------------------------------------------------------------------------------


def test_messages_between_and_beyond_measured_ones_have_a_latency_and_a_rate():
    known = {100: 20.0, 1100: 30.0}
    assert message_us(known, 600) == 25.0
    assert message_us(known, 2100) == 40.0
    assert message_us({100: 20.0}, 300) == 60.0
    assert message_us({100: 20.0, 1100: 10.0}, 600) == 20.0  # noise: never below the smaller one


def test_ddp_exposes_its_last_bucket_and_fsdp_its_ends():
    model = GPU_MODELS[0]
    known = {model.bucket_bytes: 1000.0, 1 << 30: 1000.0 * (1 << 30) / model.bucket_bytes}
    whole, last = communication_us(model, "ddp", known)
    assert (last, whole) == (1000.0, 88 * 1000.0)  # 6.97 GB in buckets of 80 MB
    whole, last = communication_us(model, "fsdp", known)
    assert whole == pytest.approx(1.5 * model.gradient_bytes / 80e6 * 1000, rel=0.01)
    assert last == pytest.approx(2 * 32_000 * 4096 * 2 / 80e6 * 1000, rel=0.01)


@pytest.mark.parametrize(("run", "source"), RUNS, ids=lambda value: str(value)[:40])
def test_published_steps_keep_more_than_the_floor(run, source):
    assert source.startswith("https://")
    assert run["to_tokens_s"] / run["from_tokens_s"] > LEAST_EFFICIENCY + 0.05


@pytest.mark.parametrize("model", GPU_MODELS, ids=lambda model: str(model.hidden))
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("nodes", [2, 16, 128, 512])
def test_a_healthy_fabric_keeps_more_than_the_floor(model, strategy, nodes):
    """8 × H100 and 8 × 400G, at the share that a healthy fleet uses by a ring, and 46 % MFU."""
    seconds = model.flops / (0.46 * 989e12)
    spread = Spread(8 * nodes, 8, 8, strategy)
    need = StepNeed(tuple(flows(model.trained, spread)), spread, seconds, 400)
    assert 1 - need.exposed_share(1) > LEAST_EFFICIENCY + 0.03
