"""What ranks do in the stage `training`: each alone, then groups of 1, 2, 4 … all nodes.

And the transformer that they train: its sizes, what it computes, what memory it takes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from rdmaprov.acceptance.preflight import needs as preflight
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks import jobs
from rdmaprov.acceptance.ranks.plan import GateJob, Task

STAGE = "training"
# Bytes of a gradient, a weight or an activation, by torch's name of its type.
DTYPES = {"float32": 4, "bfloat16": 2, "float16": 2, "float8": 1}
# A weight and a token take two operations forward and four backward.
# J. Kaplan and others, Scaling Laws for Neural Language Models, arXiv 2001.08361, section 2.1
FLOPS = 6
BACKWARD = 4 / 6
# torch's DistributedDataParallel, bucket_cap_mb: the last one has no computation to hide behind.
BUCKET_BYTES = 25 << 20
# Steps of each kind: at least, at most, and for how long. A median of five bears two odd ones.
STEPS = {"nccl": (5, 30, 6.0), "gloo": (5, 10, 5.0)}
# All-reduces of a bucket and of a message that fills the links.
_REPEAT = (5, 20, 0.5)
_LIMIT_S = 300.0
# Two nodes have no other pair to be compared with: bursts in each direction name who sends slowly.
_TWO = 2
STRATEGIES = ("ddp", "fsdp")
# AdamW keeps a weight, a gradient and two moments, here all of one type.
_STATES = 4
# Bytes of activations for a token, a layer and a unit of width, without the scores of attention,
# which are not kept: Korthikanti and others, arXiv 2205.05198, equation 2. Of 16-bit activations.
_ACTIVATION_BYTES = 34
# Logits of a token: in 16 bit, as float32, and the gradients of both.
_LOGIT_BYTES = 12
# Of the memory that is free: the rest is for buckets, buffers of collectives and fragments; ours.
_MEMORY_SHARE = 0.8


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


@dataclass(frozen=True)
class TransformerSizes:
    """A transformer, and the batch of each device.

    Args:
        sequence: tokens of a sequence.
        dtype: torch's name, of weights, gradients, activations and the optimizer's moments.
        bucket_bytes: gradients that DDP reduces at once.
    """

    hidden: int
    layers: int
    heads: int
    sequence: int
    batch: int
    vocabulary: int
    dtype: str
    bucket_bytes: int = BUCKET_BYTES

    @property
    def tokens(self) -> int:
        """Return the tokens of a device and step."""
        return self.batch * self.sequence

    @property
    def parameters(self) -> int:
        """Return the number of weights, as agent/transformer.py makes them."""
        block = 12 * self.hidden**2 + 2 * self.hidden
        return self.layers * block + self.hidden * (2 * self.vocabulary + 1)

    @property
    def gradient_bytes(self) -> int:
        """Return the bytes of all gradients."""
        return self.parameters * DTYPES[self.dtype]

    @property
    def flops(self) -> float:
        """Return the operations of a device's step.

        Six for each weight that multiplies and each token (FLOPS), and those of causal
        attention: 12 · layers · hidden · sequence for a token (arXiv 2204.02311, appendix B), of
        which half are not computed, as a token attends to those before it alone.
        """
        multiplying = 12 * self.layers * self.hidden**2 + self.vocabulary * self.hidden
        attention = 6 * self.layers * self.hidden * self.sequence
        return float(self.tokens * (FLOPS * multiplying + attention))

    @property
    def memory_bytes(self) -> float:
        """Return the memory of a device that trains it by itself, in bytes."""
        weights = _STATES * self.gradient_bytes
        activations = _ACTIVATION_BYTES * self.tokens * self.hidden * self.layers
        return weights + activations + _LOGIT_BYTES * self.tokens * self.vocabulary

    def as_work(self, strategy: str) -> Mapping[str, Any]:
        """Return what the ranks of a task are told."""
        return {**asdict(self), "strategy": strategy}


# Megatron-Core reduces 40 million parameters at once or more, as larger groups need larger messages
# to outweigh their latency (DistributedDataParallelConfig.bucket_size); 80 MB of bfloat16.
GPU_BUCKET_BYTES = 2 * 40_000_000
# The largest that fits is taken: our choice. 3.5, 1.0 and 0.13 billion weights; each multiplies
# matrices that are large enough for a GPU's full rate.
GPU_MODELS = tuple(
    TransformerSizes(*sizes, 32_000, "bfloat16", GPU_BUCKET_BYTES)
    for sizes in ((4096, 16, 32, 4096, 2), (2048, 18, 16, 4096, 2), (1024, 6, 8, 2048, 2))
)
# A step of half a billion operations, and gradients of 2 MiB: the whole path on emulated
# processors, whose numbers say nothing about a GPU. Buckets so small that there are several.
CPU_MODEL = TransformerSizes(128, 2, 4, 64, 2, 512, "float32", 512 << 10)


def choose_model(backend: str, free_bytes: int) -> TransformerSizes:
    """Return the largest model that fits.

    Args:
        backend: `nccl` or `gloo`.
        free_bytes: of the GPU that has least.
    """
    if backend != "nccl":
        return CPU_MODEL
    room = _MEMORY_SHARE * free_bytes
    return next((each for each in GPU_MODELS if each.memory_bytes <= room), GPU_MODELS[-1])
