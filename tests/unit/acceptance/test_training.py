"""Training steps: what is asked of ranks, what follows from it, and who is at fault."""

import json
from dataclasses import replace

import jsonschema
import pytest
import yaml
from bench.training import last_line, row
from tests.madeup.accept import accept
from tests.madeup.shape import usual_shape
from tests.madeup.training_faults import training_kinds
from tests.madeup.training_trials import judge
from tests.unit.helpers.live_ranks import made_site
from tests.unit.helpers.training_stages import AT, ROOT, STAGES, of_gloo, stage

from rdmaprov.acceptance.ranks import events as rank_events
from rdmaprov.acceptance.ranks.events import parse_event
from rdmaprov.acceptance.ranks.jobs import node_counts
from rdmaprov.acceptance.stage_report import parse_stages, stage_from, stage_to_keep
from rdmaprov.acceptance.stages.training import least_efficiency
from rdmaprov.acceptance.training.at_fault import node_findings, slow_groups
from rdmaprov.acceptance.training.plan import (
    CPU_MODEL,
    GPU_MODELS,
    STRATEGIES,
    choose_model,
    training_plan,
)
from rdmaprov.acceptance.training.scaling import communication_us, knees, message_us, scale_points
from rdmaprov.bandwidth.efficiency import network_share
from rdmaprov.bandwidth.fabric import Fabric
from rdmaprov.bandwidth.rates import format_percent
from rdmaprov.boundary import OddAnswer
from rdmaprov.inventory.schema import load_shipped
from rdmaprov.report import training as pages

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


@pytest.mark.parametrize("model", [*GPU_MODELS, CPU_MODEL], ids=lambda model: str(model.hidden))
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("nodes", [2, 16, 128, 512])
def test_a_healthy_fabric_keeps_more_than_the_floor(model, strategy, nodes):
    """8 × H100 and 8 × 400G, at the share that a healthy fleet uses by a ring, and 46 % MFU."""
    least = least_efficiency(LEAST_EFFICIENCY, model)
    assert bool(least) == (model in GPU_MODELS[:2])
    seconds = model.flops / (0.46 * 989e12)
    # A ring over n GPUs sends 2 (n - 1) / n bytes for each byte, over the rails of each node once.
    rails = 8 * 50e9 * network_share(Fabric(nodes, 8, 8, 400), "ring")
    microseconds = {size: 2e6 * (1 - 1 / 8 / nodes) * size / rails for size in (1 << 20, 1 << 30)}
    whole, last = communication_us(model, strategy, microseconds)
    waits = max(whole / 1e6 - seconds * (4 / 6 if strategy == "ddp" else 1), last / 1e6)
    assert not least or seconds / (seconds + waits) > least + 0.08


SCHEMA = json.loads((ROOT / "docs/results.schema.json").read_text(encoding="utf-8"))


def training_schema():
    return {**SCHEMA["$defs"]["accepted"]["properties"]["training"], "$defs": SCHEMA["$defs"]}


def test_cpus_have_numbers_and_no_floor(tmp_path):
    times, site = of_gloo(tmp_path)
    report = stage(times, site)
    assert (report.state, report.findings) == ("passed", [])
    assert any("no floor" in note for note in report.notes)
    jsonschema.validate(report.detail, training_schema())
    assert report.detail["least_efficiency"] is None
    assert stage_from(json.loads(json.dumps(stage_to_keep(report)))).detail == report.detail


@pytest.mark.parametrize(("line", "least"), [("", 0.9), ("0.95", 0.95), ("0", None)])
def test_site_sets_its_own_efficiency(tmp_path, line, least):
    extra = f"fabric_training_efficiency: {line}\n" if line else ""
    times, _ = of_gloo(tmp_path / "ranks")
    report = stage(times, replace(made_site(tmp_path / "own", 4, extra=extra), backend="nccl"))
    assert report.detail["least_efficiency"] == least


def test_ranks_that_report_no_step_leave_it_unknown(tmp_path):
    times, site = of_gloo(tmp_path)
    times.ran.events[:] = [e for e in times.ran.events if e["event"] != "step" or e["rank"]]
    report = stage(times, site)
    assert report.state == "unknown"
    assert "not verified" in report.findings[0].what


def test_a_torch_without_fsdp2_is_said_and_ddp_counts(tmp_path):
    times, site = of_gloo(tmp_path)
    fsdp = {task.number for task in times.plan.tasks("train", strategy="fsdp")}
    lacks = {"what": "fully_shard"}
    times.ran.events[:] = [
        {**{k: e[k] for k in AT}, "event": "lacks", **lacks}
        if e["event"] == "step" and e["task"] in fsdp
        else e
        for e in times.ran.events
    ]
    report = stage(times, site)
    assert report.state == "passed"
    assert any("DDP alone" in note for note in report.notes)
    assert {point["strategy"] for point in report.detail["points"]} == {"ddp"}


@pytest.fixture(scope="module")
def healthy():
    return accept(usual_shape(4), None, 1, stages=STAGES)


def test_a_healthy_fleet_has_no_finding_and_its_numbers_are_its_own(healthy):
    assert healthy.result.findings == []
    trial = judge(None, healthy)
    assert (trial.efficiency, trial.knee, trial.named) == (True, True, True)
    assert "100% | 100% | 100%" in row(None, [trial])
    assert last_line([trial]).startswith("1 fleets: efficiency 1.000")
    jsonschema.validate(
        json.loads(json.dumps(healthy.result.details["training"])), training_schema()
    )


def test_the_page_has_tokens_and_what_waits_as_a_table(healthy):
    data = {"training": json.loads(json.dumps(healthy.result.details["training"]))}
    [curve] = pages.plots(data)
    assert "The floor is 90 %" in curve.note
    assert [cells[0] for cells in curve.table.rows] == ["1", "1", "2", "2", "4", "4"]
    last = data["training"]["points"][-1]
    exposed = format_percent(last["exposed_us"] / last["step_us"])
    assert curve.table.rows[-1][curve.table.head.index("exposed")] == exposed
    assert list(pages.plots({})) == []


def test_rails_of_gloo_are_told_apart_on_the_page(tmp_path):
    times, site = of_gloo(tmp_path)
    [curve] = pages.plots({"training": stage(times, site).detail})
    assert {cells[1] for cells in curve.table.rows} >= {"DDP, rail 0", "DDP, rail 1"}
    assert "no floor" in curve.note


KINDS = {kind.name: kind for kind in training_kinds()}


def test_alike_nodes_are_not_named(tmp_path):
    times, _ = of_gloo(tmp_path)
    assert node_findings(times) == []
    assert slow_groups(times) == []
    points = scale_points(times)
    assert {point.efficiency for point in points if point.nodes == 1} == {1.0}
    last = points[-1]
    assert last.exposed_us == pytest.approx(50_000)
    assert last.efficiency == pytest.approx(100_050 / 150_050)
    assert [point.nodes for point in knees(points, 0.9)] == [2, 2, 4, 4]


@pytest.mark.parametrize(
    ("slow", "level", "says"),
    [
        ({"cpu": {2: 5.0}}, "node", "its CPU alone: 2 GFLOP/s"),
        ({"gemm": {2: 5.0}}, "rank", "had a processor for 20 % of the time"),
        ({"step": {2: 5.0}}, "node", "its process is late"),
        ({"data": {2: 60_000.0}}, "node", "the loader is late"),
    ],
    ids=["slow CPU", "CPU limit", "late process", "slow data"],
)
def test_a_slow_part_of_a_node_is_named_by_its_own_evidence(tmp_path, slow, level, says):
    times, _ = of_gloo(tmp_path, **slow)
    found = node_findings(times)
    assert [(each.node, each.level) for each in found] == [("n3", level)]
    assert says in found[0].what


@pytest.mark.parametrize("count", [2, 3])
def test_of_a_few_nodes_the_slower_one_is_named(tmp_path, count):
    times, _ = of_gloo(tmp_path, count, cpu={1: 5.0})
    assert [each.node for each in node_findings(times)] == ["n2"]


def test_twofold_differences_of_cpus_accuse_nobody(tmp_path):
    times, _ = of_gloo(tmp_path, gemm={0: 2.0}, cpu={1: 2.0}, step={2: 2.0})
    assert node_findings(times) == []


def test_what_most_ranks_show_accuses_nobody(tmp_path):
    times, _ = of_gloo(tmp_path, step={0: 0.2}, cpu={1: 0.2})
    assert node_findings(times) == []


def test_data_that_are_late_everywhere_are_of_the_fleet(tmp_path):
    times, _ = of_gloo(tmp_path, data=dict.fromkeys(range(4), 60_000.0))
    assert [(each.level, each.nodes) for each in node_findings(times)] == [("fleet", ())]


def test_a_rail_that_is_slow_with_all_nodes_is_seen(tmp_path):
    times, _ = of_gloo(tmp_path, message={"rail 1": 9.0})
    assert any(each.startswith("rail 1: all nodes reach") for each in slow_groups(times))


def test_of_two_nodes_the_one_that_sends_slowly_on_a_rail_is_named(tmp_path):
    times, site = of_gloo(tmp_path, 2, message={"rail 1": 9.0})
    report = stage(times, site)
    assert [(each.node, each.rail) for each in report.findings] == [("n2", 1)]


@pytest.mark.parametrize("name", ["hot-gpu", "slow-gpu", "slow-launch", "slow-data", "slow-rail"])
def test_a_fault_that_touches_training_is_named(name):
    one_leaf = replace(usual_shape(4), per_leaf=4)
    trial = judge(KINDS[name], accept(one_leaf, KINDS[name], 3, stages=STAGES))
    assert (trial.efficiency, trial.knee, trial.named, trial.false) == (True, True, True, 0)


def test_a_wrong_name_does_not_count():
    other = accept(usual_shape(4), KINDS["hot-gpu"], 3, stages=STAGES)
    found = [finding for finding in other.result.findings if finding.nodes]
    name = next(n for n in other.fleet.shape.names if n != found[0].node)
    other.result.findings[:] = [replace(found[0], node=name, nodes=())]
    trial = judge(KINDS["hot-gpu"], other)
    assert (trial.named, trial.false) == (False, 1)
