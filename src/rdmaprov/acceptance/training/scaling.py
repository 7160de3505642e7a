"""How a step scales with the number of nodes, by medians, and where that falls off."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rdmaprov.acceptance.ranks.events import STEP_PHASES
from rdmaprov.acceptance.ranks.plan import Task
from rdmaprov.acceptance.training.predict import StepPrediction, predict
from rdmaprov.acceptance.training.times import ALONE, TOGETHER, TrainingTimes


@dataclass(frozen=True)
class TrainingPoint:
    """A number of nodes that train together; of several groups the median.

    Args:
        nodes: of each group.
        plane: over which they communicate.
        strategy: `ddp` or `fsdp`.
        groups: that trained side by side.
        step_us: of a group's slowest rank.
        alone_us: the same step without communication.
        tokens_s: of each device, tokens a second.
        mfu: operations of the step, by what the devices' own matrix multiplications reach.
        efficiency: tokens a second and device, by those of one node.
        busbw_gb_s: of the largest all-reduce; 0 where there is none.
        phases: microseconds of a rank.
        prediction: of the step; None without its parts.

    """

    nodes: int
    plane: str
    strategy: str
    groups: int
    step_us: float
    alone_us: float
    tokens_s: float
    mfu: float
    efficiency: float
    busbw_gb_s: float
    phases: dict[str, float]
    prediction: StepPrediction | None

    @property
    def exposed_us(self) -> float:
        """Return how long a step waits for communication."""
        return max(0.0, self.step_us - self.alone_us)

    @property
    def as_predicted(self) -> float:
        """Return the predicted step by the measured one; 1 where nothing was predicted."""
        return self.prediction.us / self.step_us if self.prediction else 1.0


def scale_points(times: TrainingTimes) -> list[TrainingPoint]:
    """Return a point for each task that trains, in order."""
    found: list[TrainingPoint] = []
    first: dict[str, float] = {}
    for task in times.plan.tasks("train"):
        groups = times.group_us(task)
        if not groups or not times.devices:
            continue
        strategy = str(task.work["strategy"])
        one = first.setdefault(strategy, statistics.median(groups))
        found.append(_point(times, task, groups, one))
    return found


def _point(
    times: TrainingTimes, task: Task, groups: Sequence[float], one_us: float
) -> TrainingPoint:
    """Return the point of a task; `one_us` is the step of one node."""
    nodes, strategy = times.plan.nodes_of(task), str(task.work["strategy"])
    us, own = statistics.median(groups), times.steps(task, TOGETHER)
    usual = statistics.median(times.rate(rank) for rank in times.devices)
    phases = {
        name: statistics.median(step.phases[name] for step in own.values()) for name in STEP_PHASES
    }
    rates = times.rates(nodes, task.plane).values()
    return TrainingPoint(
        nodes,
        task.plane,
        strategy,
        len(groups),
        us,
        statistics.median(times.group_us(task, ALONE) or groups),
        1e6 * times.plan.model.tokens / us,
        times.plan.model.flops / us / 1e6 / usual,
        one_us / us,
        statistics.median(rates) if rates else 0.0,
        phases,
        predict(times, task),
    )


def knees(points: Sequence[TrainingPoint], least: float) -> Iterator[TrainingPoint]:
    """Yield the first point of each strategy and plane that is below an efficiency."""
    seen: set[tuple[str, str]] = set()
    for point in points:
        key = point.strategy, point.plane
        if point.efficiency < least and key not in seen:
            seen.add(key)
            yield point
