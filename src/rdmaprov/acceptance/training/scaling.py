"""How a step scales with the number of nodes, by medians, and where that falls off."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rdmaprov.acceptance.ranks.events import STEP_PHASES
from rdmaprov.acceptance.ranks.plan import Task
from rdmaprov.acceptance.training.plan import BACKWARD, DTYPES, TransformerSizes
from rdmaprov.acceptance.training.times import ALONE, TOGETHER, TrainingTimes


@dataclass(frozen=True)
class StepPrediction:
    """A step of a number of nodes, in microseconds.

    Args:
        compute_us: of the slowest device: what its rate and the fleet's usual use of it make.
        communication_us: of all messages, one after the other.
        exposed_us: what of that computation cannot hide.
    """

    compute_us: float
    communication_us: float
    exposed_us: float

    @property
    def us(self) -> float:
        """Return the whole step."""
        return self.compute_us + self.exposed_us


def predict(times: TrainingTimes, task: Task) -> StepPrediction | None:
    """Return what a step of a task should take, of its usual group; None without its parts.

    A device's computation is its operations by its own rate and the median use that all devices
    make of theirs: what one takes longer than that is its process.
    """
    model, own = times.plan.model, times.own_mfu
    if not own:
        return None
    usual = statistics.median(own.values())
    computes = [
        max(model.flops / times.rate(rank) / usual / 1e6 for rank in ranks)
        for ranks in task.groups
        if all(rank in own for rank in ranks)
    ]
    if not computes:
        return None
    data = statistics.median(step.phases["data"] for step in times.alone.values())
    compute = statistics.median(computes) + data
    messages = times.message_us(times.plan.nodes_of(task), task.plane)
    if not messages:
        return StepPrediction(compute, 0.0, 0.0) if len(task.groups[0]) == 1 else None
    strategy = str(task.work["strategy"])
    whole, last = communication_us(model, strategy, messages)
    hidden = compute * (BACKWARD if strategy == "ddp" else 1.0)
    return StepPrediction(compute, whole, max(whole - hidden, last))


def communication_us(
    model: TransformerSizes, strategy: str, messages: Mapping[int, float]
) -> tuple[float, float]:
    """Return the time of all messages of a step, and of those that nothing can hide.

    DDP reduces its buckets during the backward pass; the last one has nothing to hide behind. FSDP
    gathers each block twice and scatters its gradients: three halves of an all-reduce. The first
    gather and the last scatter are exposed.

    Args:
        strategy: `ddp` or `fsdp`.
        messages: microseconds of an all-reduce by its bytes.
    """
    if strategy == "ddp":
        bucket = message_us(messages, min(model.bucket_bytes, model.gradient_bytes))
        return math.ceil(model.gradient_bytes / model.bucket_bytes) * bucket, bucket
    block = message_us(messages, 12 * model.hidden**2 * DTYPES[model.dtype])
    ends = message_us(messages, 2 * model.vocabulary * model.hidden * DTYPES[model.dtype])
    return 1.5 * (model.layers * block + ends), ends


def message_us(messages: Mapping[int, float], size: float) -> float:
    """Return the time of a message between or beyond measured ones: a latency and a rate."""
    sizes = sorted(messages)
    low, high = sizes[0], sizes[-1]
    if low == high:
        return messages[low] * size / low
    rate = max(0.0, messages[high] - messages[low]) / (high - low)
    return max(messages[low] + (size - low) * rate, messages[low] * min(1.0, size / low))


@dataclass(frozen=True)
class TrainingPoint:
    """A number of nodes that train together; of several groups the median.

    Args:
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
