"""What ranks do in the stage `training`: each alone, then groups of 1, 2, 4 … all nodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rdmaprov.acceptance.preflight import needs as preflight
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks import jobs
from rdmaprov.acceptance.ranks.plan import GateJob, Task
from rdmaprov.acceptance.training.model import STRATEGIES, TransformerSizes, choose_model

STAGE = "training"
# Steps of each kind: at least, at most, and for how long. A median of five bears two odd ones.
STEPS = {"nccl": (5, 30, 6.0), "gloo": (5, 10, 5.0)}
# All-reduces of a bucket and of a message that fills the links.
_REPEAT = (5, 20, 0.5)
_LIMIT_S = 300.0
# Two nodes have no other pair to be compared with: bursts in each direction name who sends slowly.
_TWO = 2


@dataclass(frozen=True)
class TrainingPlan:
    """The job of the stage.

    Args:
        sizes: numbers of nodes that train together, ascending.
    """

    job: GateJob
    model: TransformerSizes
    sizes: tuple[int, ...]

    def nodes_of(self, task: Task) -> int:
        """Return how many nodes each group of a task has."""
        return len(task.groups[0]) // self.job.per_node

    def tasks(self, collective: str, nodes: int = 0, strategy: str = "") -> list[Task]:
        """Return the tasks of a kind, of some or all numbers of nodes and strategies."""
        return [
            task
            for task in self.job.tasks
            if task.collective == collective
            and nodes in (0, self.nodes_of(task))
            and strategy in ("", task.work.get("strategy", ""))
        ]


def training_plan(site: GateSite) -> TrainingPlan:
    """Return what the ranks of a site do.

    Groups of the same number of nodes train side by side, neighbours in the site's order, so each
    node is in a group of each size, but for those that are left over.
    """
    model = choose_model(site.backend, preflight.free_bytes(site.facts))
    bare = jobs.fleet_job(site, (), pairs=False)
    sizes = jobs.node_counts(len(site.nodes))
    tasks = tuple(_tasks(site, bare, model, sizes))
    return TrainingPlan(replace(bare, tasks=tasks), model, sizes)


def _tasks(
    site: GateSite, job: GateJob, model: TransformerSizes, sizes: tuple[int, ...]
) -> Iterator[Task]:
    numbers, first = itertools.count(), job.planes[0].name
    everyone = (tuple(range(job.world)),)
    yield Task(
        next(numbers), STAGE, first, everyone, "gemm", work=model.as_work(""), limit_s=_LIMIT_S
    )
    if site.backend == "gloo" and len(site.nodes) == _TWO:
        for plane in job.planes:
            yield Task(next(numbers), STAGE, plane.name, everyone, "exchange")
    messages = tuple(sorted({model.bucket_bytes, jobs.group_bytes(site)}))
    for size in sizes:
        groups = node_groups(job, size)
        if len(groups[0]) > 1:
            for plane in job.planes:
                yield Task(
                    next(numbers),
                    STAGE,
                    plane.name,
                    groups,
                    sizes=messages,
                    dtypes=(model.dtype,),
                    repeat=_REPEAT,
                    limit_s=_LIMIT_S,
                )
        # gloo has a rail at a time: that of the first one stands for all, but for all nodes.
        planes = job.planes if size == sizes[-1] else job.planes[:1]
        for plane, strategy in itertools.product(planes, STRATEGIES):
            yield Task(
                next(numbers),
                STAGE,
                plane.name,
                groups,
                "train",
                repeat=STEPS[site.backend],
                limit_s=_LIMIT_S,
                work=model.as_work(strategy),
            )


def node_groups(job: GateJob, size: int) -> tuple[tuple[int, ...], ...]:
    """Return the ranks of neighbours, as many nodes as asked for; a rest is left out."""
    ranks = size * job.per_node
    whole = len(job.nodes) // size * ranks
    return tuple(tuple(range(first, first + ranks)) for first in range(0, whole, ranks))
