"""What ranks are to do in an all-reduce: a job, its planes, its tasks, its limits of time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

DTYPES = ("float32", "bfloat16", "float16", "int32")
# Of the limits for each rank: with 64 ranks that joined at once on two processors, a rank took this
# part of a second. A fleet's ranks have processors of their own.
_JOIN_S = 0.15
# Once three of four groups have ended, or all but one, the others have ten times as long for a
# step: no healthy one needed it on made-up fleets. Our choices.
_LATE_PART, TIMES, LEAST_S = 4, 10, 20.0
# NCCL's own since 2.23 (its env page), tries of a message, and what NCCL needs beside them.
IB_TIMEOUT, _IB_TRIES, _NCCL_S = 20, 8, 15


@dataclass(frozen=True)
class JobLimits:
    """How long the parts of a job may take, in seconds; `of` has those for many ranks.

    Args:
        load: importing torch; minutes where many nodes read it from one file server.
        rendezvous: until all ranks have joined, from when the first one is ready.
        connect: making the groups of a plane.
        step: one collective.
        hang: the least for one of a group that has not ended when most others have.
    """

    load: float = 600
    rendezvous: float = 120
    connect: float = 60
    step: float = 60
    hang: float = 60

    @classmethod
    def of(cls, backend: str, ranks: int, ib_timeout: int = IB_TIMEOUT) -> "JobLimits":
        """Return the limits of a job with this number of ranks.

        NCCL's init took 55 s on 8 B200 (NVIDIA/nccl#1646) and 150 s at thousands of GPUs
        (NVIDIA/nccl#1156); `connect` is twice that. After a path broke, an HCA repeats a message
        seven times, each time for 4.096 µs · 2^NCCL_IB_TIMEOUT: up to 137 s at 22, a value that
        fleets use, before NCCL names the HCA. `step` is above that, so that NCCL has its say, and
        `hang` is what the nodes' own value needs.
        All ranks join through one store: bench/control_plane.py has its share for each rank.
        """
        joining = 120 + _JOIN_S * ranks
        if backend == "nccl":
            hang = _IB_TRIES * 4.096e-6 * 2.0 ** min(ib_timeout, 31) + _NCCL_S
            return cls(600, joining, 120 + ranks * 180 / 4096, 180, min(180, max(LEAST_S, hang)))
        return cls(rendezvous=joining, connect=60 + _JOIN_S * ranks)

    @property
    def start_s(self) -> float:
        """Return how long ranks may take until they are ready for a task."""
        return self.load + self.rendezvous

    def hurried_s(self, groups: int, late: int, seconds: float) -> float:
        """Return the limit of a step of the groups that have not ended, by those that have.

        Args:
            late: groups that have not ended.
            seconds: that the slowest of the others took for the task.
        """
        if late == groups or late > max(1, groups // _LATE_PART):
            return self.step
        return min(self.step, max(self.hang, TIMES * seconds))

    def task_s(self, task: "Task") -> float:
        """Return how long a task may take from when all ranks have it.

        Behind its own limit, a step may have begun, and then the last ones follow. A pair exchanges
        24 MiB and some 100 small messages (agent/latency.py), seconds over any network: two steps
        are for one that hangs, and for what follows it.
        """
        if task.collective == "exchange":
            return self.connect + 2 * self.step
        return self.connect + max(task.limit_s, task.soak_s) + 5 * self.step


@dataclass(frozen=True)
class JobPlane:
    """A part of the fabric that is proven by itself.

    Args:
        name: as it is shown, such as `rail 0`.
        rail: its number, None for all rails together.
        netdevs: its network device, by node; NCCL finds its own.
    """

    name: str
    rail: int | None = None
    netdevs: Mapping[str, str] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """What the ranks of a job do next, in groups side by side.

    Args:
        number: unique in its job, ascending from 0.
        stage: of the gate, or `isolation`.
        groups: ranks of the job, disjoint; a rank in none of them waits.
        collective: `all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all`; or `exchange`:
            groups of two send each other messages, and no sizes are asked for; `gpu`: each rank
            tests its device by itself, without a communicator.
        sizes: bytes, as nccl-tests counts them: of the larger one of a rank's two buffers.
            Ranks run the largest first.
        dtypes: whose values are verified; the first one is timed.
        repeat: timed iterations of each size: at least, at most, and for how long, in seconds.
        soak_s: run this long with random data instead of the sweep.
        limit_s: of the whole task; sizes for which no time is left are reported as cut.
        work: of `gpu`: how much and how long (stages.gpu).
    """

    number: int
    stage: str
    plane: str
    groups: tuple[tuple[int, ...], ...]
    collective: str = "all_reduce"
    sizes: tuple[int, ...] = ()
    dtypes: tuple[str, ...] = DTYPES
    repeat: tuple[int, int, float] = (5, 50, 0.5)
    soak_s: float = 0.0
    limit_s: float = 180.0
    work: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @cached_property
    def group_of(self) -> Mapping[int, int]:
        """Return the number of each rank's group."""
        return {rank: index for index, ranks in enumerate(self.groups) for rank in ranks}

    def as_data(self, ranks: range) -> dict[str, Any]:
        """Return the task as the ranks of a node read it: with their own groups only."""
        data = {key: getattr(self, key) for key in self.__dataclass_fields__}
        own = sorted({self.group_of[rank] for rank in ranks if rank in self.group_of})
        return {**data, "groups": {str(index): self.groups[index] for index in own}}


@dataclass(frozen=True)
class GateJob:
    """Ranks that perform tasks together.

    Args:
        nodes: in the order of their ranks.
        pythons: the interpreter with torch, by node.
        address: of rank 0's rendezvous, and `port`.
        control: the network device that leads there, by node.
        tasks: what `run` has them do, in order; a session is given its tasks one by one.
        environment: further variables of the ranks, by node.
        sampled: the rails whose counters are read meanwhile, each by its network device and its
            PCI address, by node.
    """

    backend: str
    nodes: tuple[str, ...]
    per_node: int
    pythons: Mapping[str, str]
    address: str
    port: int
    control: Mapping[str, str]
    planes: tuple[JobPlane, ...]
    tasks: tuple[Task, ...] = ()
    limits: JobLimits = JobLimits()
    environment: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sampled: Mapping[str, tuple[dict[str, str], ...]] = field(default_factory=dict)

    @property
    def world(self) -> int:
        """Return the number of ranks."""
        return len(self.nodes) * self.per_node

    def node_of(self, rank: int) -> str:
        """Return the node that a rank runs on."""
        return self.nodes[rank // self.per_node]

    def ranks_of(self, node: str) -> range:
        """Return the ranks of a node."""
        first = self.nodes.index(node) * self.per_node
        return range(first, first + self.per_node)

    def limit_s(self) -> float:
        """Return how long the whole job may take; groups that were made before are not again."""
        seen: set[tuple[str, tuple[tuple[int, ...], ...]]] = set()
        total = self.limits.start_s
        for task in self.tasks:
            total += self.limits.task_s(task)
            total -= self.limits.connect if (task.plane, task.groups) in seen else 0
            seen.add((task.plane, task.groups))
        return total
