"""The stage `training` as results.json has it; docs/results.schema.json describes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rdmaprov.acceptance.training.scaling import TrainingPoint
from rdmaprov.acceptance.training.times import TOGETHER, TrainingTimes


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
