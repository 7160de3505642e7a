"""The stage `training`: real steps on 1, 2, 4 … all nodes, and what keeps them from scaling."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rdmaprov.acceptance.at_fault import run as blame
from rdmaprov.acceptance.at_fault import wrong_sums
from rdmaprov.acceptance.evidence import floor as fleet_floor
from rdmaprov.acceptance.live.ranks import LiveRanks
from rdmaprov.acceptance.options import Options
from rdmaprov.acceptance.paths import judge as paths
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks import rail_map
from rdmaprov.acceptance.ranks.launch import JobRunner
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.acceptance.stage_report import StageReport
from rdmaprov.acceptance.stages import groups as stages_groups
from rdmaprov.acceptance.training import at_fault
from rdmaprov.acceptance.training.plan import (
    GPU_MODELS,
    TrainingPlan,
    TransformerSizes,
    training_plan,
)
from rdmaprov.acceptance.training.scaling import TrainingPoint, knees, scale_points
from rdmaprov.acceptance.training.times import TOGETHER, TrainingTimes
from rdmaprov.bandwidth.floor_model import FloorVerdict
from rdmaprov.bandwidth.rates import format_percent
from rdmaprov.finding.finding import Finding
from rdmaprov.isolation.compare import BAD_SHARE
from rdmaprov.words import quantity

GLOO_NOTE = (
    "training: a small model on CPUs over gloo tests the path and names slow ranks; its tokens, "
    "MFU and efficiency have no floor"
)
_UNNAMED = (
    "Compare its communication with the prediction in results.json (training); on the nodes, see "
    "what takes the GPUs' time beside NCCL: nsys profile"
)


def training_as_data(
    times: TrainingTimes, points: Sequence[TrainingPoint], least_efficiency: float
) -> dict[str, Any]:
    """Return what was measured: by number of nodes, and by rank where all nodes train."""
    model, on_gpu = times.plan.model, times.on_gpu
    return {
        "parameters": model.parameters,
        "dtype": model.dtype,
        "gradient_bytes": model.gradient_bytes,
        "tokens": model.tokens,
        "flops": model.flops,
        "least_efficiency": least_efficiency or None,
        "devices": [
            {
                "rank": rank,
                "node": times.plan.job.node_of(rank),
                "tflops": round(each.tflops, 6),
                "cpu_share": None if on_gpu else round(each.cpu_share, 4),
            }
            for rank, each in sorted(times.devices.items())
        ],
        "points": [_point(point) for point in points],
        "ranks": list(_ranks(times)),
    }


def _point(point: TrainingPoint) -> dict[str, Any]:
    predicted = point.prediction
    return {
        "nodes": point.nodes,
        "plane": point.plane,
        "strategy": point.strategy,
        "groups": point.groups,
        "step_us": round(point.step_us, 1),
        "alone_us": round(point.alone_us, 1),
        "exposed_us": round(point.exposed_us, 1),
        "predicted_us": round(predicted.us, 1) if predicted else None,
        "predicted_exposed_us": round(predicted.exposed_us, 1) if predicted else None,
        "communication_us": round(predicted.communication_us, 1) if predicted else None,
        "tokens_s": round(point.tokens_s, 1),
        "mfu": round(point.mfu, 4),
        "efficiency": round(point.efficiency, 4),
        "busbw_gb_s": round(point.busbw_gb_s, 4),
        "phases_us": {name: round(us, 1) for name, us in point.phases.items()},
    }


def _ranks(times: TrainingTimes) -> Iterator[dict[str, Any]]:
    """Yield the steps of each rank where all nodes train together, and its own work."""
    last = times.plan.sizes[-1]
    for task in times.plan.tasks("train", last):
        for rank, step in sorted(times.steps(task, TOGETHER).items()):
            alone = times.alone.get(rank)
            yield {
                "rank": rank,
                "node": times.plan.job.node_of(rank),
                "plane": task.plane,
                "strategy": task.work["strategy"],
                "step_us": round(step.us, 1),
                "worst_us": round(step.worst_us, 1),
                "alone_us": round(alone.us, 1) if alone else None,
                "phases_us": {name: round(us, 1) for name, us in step.phases.items()},
            }


def run_training(site: GateSite, runner: JobRunner, options: Options) -> StageReport:
    """Return what training steps show, and what is at fault where they differ from prediction."""
    report = StageReport("training")
    plan = training_plan(site)
    ran = _run(plan, runner, options)
    times = TrainingTimes(plan, ran)
    points = scale_points(times)
    report.findings += blame.findings(ran, rail_map.site_map(site.nodes, site.facts))
    report.findings += wrong_sums.findings(ran)
    if ran.good and _is_whole(times, points):
        _judge(report, site, runner, times, points, options)
    elif not report.findings:
        what = "training is not verified: not all ranks reported their steps"
        remedy = "On the controller, read logs/ of this run"
        report.findings.append(Finding("training.unmeasured", what, remedy, proven=False))
    report.notes += _notes(times, points)
    report.detail = training_as_data(times, points, _least(site, plan))
    report.said = _sentence(plan, points)
    return report


def _run(plan: TrainingPlan, runner: JobRunner, options: Options) -> JobRun:
    """Return the run of a plan, task by task.

    Groups of a task need not end together: those of a slow node would keep the others waiting in
    the next task, beyond the limit of a step.
    """
    with runner.open([plan.job], options.limit_s) as session:
        for task in plan.job.tasks:
            session.perform({0: task})
            if session.runs[0].has_failed:
                break
    return session.runs[0]


def _is_whole(times: TrainingTimes, points: Sequence[TrainingPoint]) -> bool:
    """Return whether every rank reported its device and steps, unless its torch lacks FSDP2."""
    lacks = bool(times.ran.events_of("lacks"))
    due = [t for t in times.plan.tasks("train") if not (lacks and t.work["strategy"] == "fsdp")]
    whole = all(len(times.group_us(task)) == len(task.groups) for task in due)
    return whole and len(times.devices) == times.plan.job.world and bool(points)


def least_efficiency(wanted: float, model: TransformerSizes) -> float:
    """Return the least efficiency; 0 for none. docs/training.md derives the default.

    The smallest model computes too little to hide its messages, on a healthy fabric as well.
    """
    return wanted if model in GPU_MODELS[:-1] else 0.0


def _least(site: GateSite, plan: TrainingPlan) -> float:
    return least_efficiency(float(site.nodes[0].get("fabric_training_efficiency")), plan.model)


def _judge(
    report: StageReport,
    site: GateSite,
    runner: JobRunner,
    times: TrainingTimes,
    points: Sequence[TrainingPoint],
    options: Options,
) -> None:
    """Add what is at fault: in nodes, then in processes, then between nodes."""
    report.findings += at_fault.node_findings(times)
    why = _network(site, times)
    least = _least(site, times.plan)
    below = next(knees(points, least), None)
    is_slow = bool(why or below) or any(each.as_predicted < BAD_SHARE for each in points)
    known = {name for each in report.findings for name in each.nodes}
    late = list(at_fault.stragglers(times, is_slow, known))
    report.findings += late
    if below is not None and not why and not report.findings:
        why = _efficiency_text(below)
    if len(site.nodes) == 2 and site.backend == "gloo":
        report.findings += paths.slow_rails(times.ran)
    elif why and not late and options.isolate:
        report.findings += list(_isolate(site, runner, why, report.findings))
    report.findings += _efficiency(least, points, report.findings)


def _network(site: GateSite, times: TrainingTimes) -> str:
    """Return what shows that messages between nodes are slow; empty if nothing does."""
    if slow := at_fault.slow_groups(times):
        return slow[0]
    if site.backend != "nccl":
        return ""
    inside = times.rates(1, times.plan.job.planes[0].name).values()
    alone = statistics.median(inside) if inside else 0.0
    judgement, _ = fleet_floor.judge(site, times.ran, intra_node_gb_s=alone)
    is_slow = judgement is not None and judgement.verdict is FloorVerdict.SLOW
    return judgement.sentence if judgement is not None and is_slow else ""


def _isolate(
    site: GateSite, runner: JobRunner, why: str, known: Sequence[Finding]
) -> Iterator[Finding]:
    """Yield what pairs and groups show, unless that node is known to be slow by itself."""
    nodes = {each.node for each in known if each.level in ("node", "rank")}
    with LiveRanks(site, runner, "isolation").opened() as live:
        found = stages_groups.run_isolation(live, site)
    for each in found:
        if not (each.node in nodes and each.level in ("node", "rail", "rank")):
            yield replace(each, what=f"{each.what} (training: {why})")
    if not found and not nodes:
        what = f"communication is slow, and pairs of nodes do not show where: {why}"
        remedy = "Run rdmaprov accept with the stages pairs, groups and fleet"
        yield Finding("training.communication", what, remedy, proven=False)


def _efficiency(
    least: float, points: Sequence[TrainingPoint], found: Sequence[Finding]
) -> Iterator[Finding]:
    """Yield the strategies that do not scale, with what was found beside them."""
    named = ", ".join(dict.fromkeys(name for each in found for name in each.nodes))
    for point in knees(points, least):
        what = f"{_efficiency_text(point)}; the floor is {format_percent(least)}"
        remedy = f"First repair what is found on {named}" if named else _UNNAMED
        yield Finding("training.efficiency", what, remedy)


def _efficiency_text(point: TrainingPoint) -> str:
    text = (
        f"{point.strategy.upper()} on {quantity(point.nodes, 'node')} keeps "
        f"{format_percent(point.efficiency)} of one node's tokens per second and GPU"
    )
    if point.prediction:
        text += f" (a step takes {1 / point.as_predicted:.2f} times what was predicted)"
    return text


def _notes(times: TrainingTimes, points: Sequence[TrainingPoint]) -> Iterator[str]:
    if times.ran.events_of("lacks"):
        yield "training: this torch has no torch.distributed.fsdp.fully_shard, so DDP alone ran"
    if not times.on_gpu:
        yield GLOO_NOTE
    for point in points:
        if times.on_gpu and point.as_predicted < BAD_SHARE:
            yield f"training: {_efficiency_text(point)}"


def _sentence(plan: TrainingPlan, points: Sequence[TrainingPoint]) -> str:
    """Return what the stage reached, in one line."""
    model = plan.model
    said = f"{model.parameters / 1e6:.3g} M parameters in {model.dtype}"
    for strategy in dict.fromkeys(point.strategy for point in points):
        last = [p for p in points if p.strategy == strategy and p.plane == points[0].plane][-1]
        said += (
            f"; {strategy.upper()} on {quantity(last.nodes, 'node')}: "
            f"{last.tokens_s:,.0f} tokens/s a device, MFU {format_percent(last.mfu)}, "
            f"{format_percent(last.efficiency)} of one node, "
            f"{format_percent(last.exposed_us / last.step_us)} exposed"
        )
    return said
