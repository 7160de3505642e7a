"""What ranks measured in the stage `training`: rates of devices, times of steps and messages."""

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from rdmaprov.acceptance.evidence import measure
from rdmaprov.acceptance.evidence.measure import SweepRow
from rdmaprov.acceptance.ranks.events import STEP_PHASES, RankEvent
from rdmaprov.acceptance.ranks.plan import Task
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.acceptance.training.plan import TrainingPlan

ALONE, TOGETHER = "alone", "together"


@dataclass(frozen=True)
class DeviceRate:
    """How fast a device multiplies matrices.

    Args:
        tflops: 10¹² operations a second, by the wall clock.
        cpu_tflops: by the time that its process had a processor; says nothing of a GPU.
    """

    tflops: float
    cpu_tflops: float

    @property
    def cpu_share(self) -> float:
        """Return the share of the time in which its process had a processor."""
        return min(1.0, self.tflops / self.cpu_tflops)


@dataclass(frozen=True)
class StepTimes:
    """The steps of one rank in one task.

    Args:
        worst_us: of the longest one.
        own_us: of a CPU's step, without waiting for the processor; of a GPU's, the same as `us`.
        phases: microseconds of data, forward, backward and optimizer.
    """

    rank: int
    us: float
    worst_us: float
    own_us: float
    phases: Mapping[str, float]


@dataclass(frozen=True)
class TrainingTimes:
    """What the ranks of a plan measured.

    With gloo a time is the best one: whatever else a machine does only slows it down.
    """

    plan: TrainingPlan
    ran: JobRun

    @property
    def on_gpu(self) -> bool:
        """Return whether devices are GPUs."""
        return self.plan.job.backend == "nccl"

    @cached_property
    def devices(self) -> dict[int, DeviceRate]:
        """Return the rate of each rank's device."""
        key = "median_us" if self.on_gpu else "best_us"
        return {
            event["rank"]: DeviceRate(
                event["flops"] / event[key] / 1e6, event["flops"] / event["cpu_us"] / 1e6
            )
            for event in self.ran.events_of("gemm")
        }

    def rate(self, rank: int) -> float:
        """Return what a rank's device reaches, 10¹² operations a second.

        Of a CPU by the time in which its process had it: what shares it takes from each step what
        it likes, and the fastest steps are those from which it took nothing.
        """
        device = self.devices[rank]
        return device.tflops if self.on_gpu else device.cpu_tflops

    @cached_property
    def _steps(self) -> dict[tuple[int, str], dict[int, StepTimes]]:
        found: dict[tuple[int, str], dict[int, StepTimes]] = {}
        for event in self.ran.events_of("step"):
            own = found.setdefault((event["task"], event["mode"]), {})
            own[event["rank"]] = self._step(event)
        return found

    def _step(self, event: RankEvent) -> StepTimes:
        us = event["median_us" if self.on_gpu else "best_us"]
        phases = {name: float(event[f"{name}_us"]) for name in STEP_PHASES}
        times = float(us), float(event["worst_us"]), float(event["own_us"])
        return StepTimes(event["rank"], *times, phases)

    def steps(self, task: Task, mode: str) -> dict[int, StepTimes]:
        """Return the steps of a task's ranks; those of a rank by itself are also its group's."""
        if mode == TOGETHER and len(task.groups[0]) == 1:
            mode = ALONE
        return self._steps.get((task.number, mode), {})

    def group_us(self, task: Task, mode: str = TOGETHER) -> list[float]:
        """Return the step of each group, of its slowest rank; without groups that did not end."""
        own = self.steps(task, mode)
        return [
            max(own[rank].us for rank in ranks)
            for ranks in task.groups
            if all(rank in own for rank in ranks)
        ]

    @cached_property
    def rows(self) -> list[SweepRow]:
        """Return the all-reduces, in place."""
        return [row for row in measure.rows(self.ran) if row.in_place]

    def messages(self, nodes: int, plane: str) -> Iterator[SweepRow]:
        """Yield the all-reduces of groups of this many nodes."""
        ranks = nodes * self.plan.job.per_node
        return (row for row in self.rows if row.plane == plane and len(row.ranks) == ranks)

    def message_us(self, nodes: int, plane: str) -> dict[int, float]:
        """Return the usual time of an all-reduce of this many nodes, by its bytes."""
        found: dict[int, list[float]] = {}
        for row in self.messages(nodes, plane):
            us = row.median_us if self.on_gpu else row.best_us
            found.setdefault(row.bytes, []).append(us)
        return {size: statistics.median(times) for size, times in sorted(found.items())}

    def rates(self, nodes: int, plane: str) -> dict[tuple[int, ...], float]:
        """Return the bus bandwidth of each group of this many nodes, of the largest message."""
        rows = list(self.messages(nodes, plane))
        most = max((row.bytes for row in rows), default=0)
        return {
            row.ranks: row.busbw_gb_s if self.on_gpu else row.best_gb_s
            for row in rows
            if row.bytes == most
        }

    @cached_property
    def alone(self) -> dict[int, StepTimes]:
        """Return each rank's steps without communication, the fastest of all tasks.

        A rank's own work is the same in each of them.
        """
        best: dict[int, StepTimes] = {}
        for task in self.plan.tasks("train"):
            for rank, step in self.steps(task, ALONE).items():
                if rank not in best or step.own_us < best[rank].own_us:
                    best[rank] = step
        return best

    @cached_property
    def own_mfu(self) -> dict[int, float]:
        """Return what a step without communication makes of each device's rate, without data."""
        flops = self.plan.model.flops
        return {
            rank: flops / (step.own_us - step.phases["data"]) / 1e6 / self.rate(rank)
            for rank, step in self.alone.items()
            if rank in self.devices and step.own_us > step.phases["data"]
        }

    def nodes_of(self, ranks: tuple[int, ...]) -> tuple[str, ...]:
        """Return the nodes of ranks."""
        return tuple(dict.fromkeys(self.plan.job.node_of(rank) for rank in ranks))
