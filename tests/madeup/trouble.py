"""What stops a job on a made-up fleet, and what its ranks and supervisors show of that."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.madeup.fleet import MadeUpFleet
from tests.madeup.logs import JobLogs

from rdmaprov.acceptance.ranks.plan import GateJob, Task
from rdmaprov.acceptance.ranks.run import JobRun

_WAITS_AT = "/opt/torch/lib/python3.12/site-packages/torch/cuda/__init__.py:1040 synchronize"
_STUCK_AT = (
    "/opt/torch/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py:2810 all_reduce"
)
Event = Mapping[str, Any]


@dataclass(frozen=True)
class Trouble:
    """A reason why a job ends early; `waits` are ranks that hang with it, empty for all.

    `what` is `dies`, `node-dies`, `absent`, `stuck`, `gpu-stuck`, `mixed` (ranks disagree on what
    to do, and all wait) or `link-dies`, whose `peers` are rank and port of the other ends.
    """

    what: str
    node: int
    name: str
    ranks: tuple[int, ...]
    phase: str
    entered: int
    rail: int = 0
    peers: tuple[tuple[int, int], ...] = ()
    waits: tuple[int, ...] = ()

    def apply(
        self, run: JobRun, say: Callable[[Event], None], logs: JobLogs | None, step_s: float
    ) -> float:
        """Make a run show it; return the seconds that it takes until that is seen.

        Args:
            step_s: the limit of a step.
        """
        if self.what in ("dies", "node-dies"):
            return self._kill(run)
        if self.what == "absent":
            return self._miss(run, say)
        if self.what == "link-dies":
            assert logs is not None
            return self._cut(run, say, logs)
        return self._hang(run, say, step_s)

    def _kill(self, run: JobRun) -> float:
        node = run.nodes[self.name]
        self._stop_others(run)
        if self.what == "node-dies":
            node.lost, node.why = True, f"{self.name}: no answer in 20 s"
            return 60.0
        node.rc = 1
        node.ended = {self.ranks[0]: -9}
        return 10.0

    def _stop_others(self, run: JobRun) -> None:
        """Note what the others were at when the controller ended them: waiting."""
        for name, node in run.nodes.items():
            if name != self.name or self.what != "node-dies":
                for rank in node.own:
                    node.ranks[rank] = self._at(self.entered, "S")

    def _at(self, entered: int, process: str) -> dict[str, Any]:
        counts = {"communicator": 1, "entered": entered, "left": max(0, entered - 1)}
        return {**counts, "phase": self.phase, "process": process}

    @staticmethod
    def _tell(
        run: JobRun, say: Callable[[Event], None], kind: str, rank: int, **more: object
    ) -> None:
        event = {"event": kind, "rank": rank, **more}
        run.take_event(event)
        say(event)

    def _miss(self, run: JobRun, say: Callable[[Event], None]) -> float:
        names = ", ".join(map(str, self.ranks))
        error = f"Ranks {names} failed to pass monitoredBarrier in 120 s"
        first = 0 if 0 not in self.ranks else 1
        at = {"phase": "rendezvous", "entered": 0}
        self._tell(run, say, "missing", first, error=error)
        self._tell(run, say, "failed", first, **at, error=f"RuntimeError: {error}")
        self._stop_others(run)
        run.nodes[run.job.node_of(first)].rc = 1
        return 120.0

    def _hang(self, run: JobRun, say: Callable[[Event], None], step_s: float) -> float:
        """Let ranks reach their time limit: all that wait for it."""
        limit = run.job.limits.connect if self.what == "mixed" else step_s
        waits = self.waits or range(run.job.world)
        for rank in waits:
            mine = rank in self.ranks
            node = run.nodes[run.job.node_of(rank)]
            silent = self.what == "stuck" and mine
            node.ranks[rank] = self._at(self.entered, "D" if silent else "S")
            if silent:
                continue
            where = _STUCK_AT if self.what == "mixed" else _WAITS_AT
            at = {"phase": self.phase, "entered": self.entered}
            self._tell(run, say, "late", rank, **at, limit_s=limit, where=where)
        for name in dict.fromkeys(run.job.node_of(rank) for rank in waits):
            if name != self.name or self.what != "stuck":
                run.nodes[name].rc = 1
        return limit

    def _cut(self, run: JobRun, say: Callable[[Event], None], logs: JobLogs) -> float:
        """Let both ends of a dead link see completions with error; their watchdogs end them."""
        self._stop_others(run)
        rank = self.ranks[0]
        ends: list[tuple[int, tuple[tuple[int, int], tuple[int, int]]]] = []
        # Its own NIC knows first, and the link stays down.
        logs.add_port_error(rank, self.rail)
        logs.fleet.lose_link(self.node, self.rail)
        for far_rank, far_rail in self.peers:
            far = logs.fleet.number_of[run.job.node_of(far_rank)]
            ends.append((rank, ((self.node, self.rail), (far, far_rail))))
            ends.append((far_rank, ((far, far_rail), (self.node, self.rail))))
        for each, ports in ends:
            said = logs.add_completion_error(each, ports)
            error = (
                "DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, remote process exited"
                f" or there was a network error, NCCL version 2.27.5. Last error: {said}"
            )
            at = {"phase": self.phase, "entered": self.entered}
            self._tell(run, say, "failed", each, **at, error=error)
            node = run.nodes[run.job.node_of(each)]
            node.rc = 1
            node.ended = {each: -6}
        return 30.0


def find_trouble(fleet: MadeUpFleet, job: GateJob, task: Task | None, done: int) -> Trouble | None:
    """Return what stops a job now, None if nothing does; without a task, at the rendezvous."""
    for (node, gpu), fault in fleet.condition.ranks.items():
        name = fleet.shape.names[node]
        if name not in job.nodes or gpu >= job.per_node:
            continue
        rank = job.ranks_of(name)[gpu]
        if task is None:
            if fault.what == "absent":
                return Trouble("absent", node, name, (rank,), "rendezvous", 0)
            continue
        if fault.what in ("dies", "node-dies", "stuck", "gpu-stuck") and _reaches(
            job, task, rank, fault.after, done
        ):
            phase = f"{task.plane}: {'pairs' if task.collective == 'exchange' else 'sweep'}"
            # Groups side by side do not wait for each other.
            waits = task.groups[task.group_of[rank]] if fault.what.endswith("stuck") else ()
            at = (name, (rank,), phase, 40 + 200 * done)
            return Trouble(fault.what, node, *at, waits=waits)
    if task is None or job.backend != "nccl":
        return None
    return _mixed(fleet, job, task, done) or _dead_link(fleet, job, task, done)


def _reaches(job: GateJob, task: Task, rank: int, after: int, done: int) -> bool:
    """Return whether a rank is in a collective between nodes, after some others or with all."""
    group = task.group_of.get(rank)
    if group is None or (done < after and task.stage != "fleet"):
        return False
    return len({each // job.per_node for each in task.groups[group]}) > 1


def _mixed(fleet: MadeUpFleet, job: GateJob, task: Task, done: int) -> Trouble | None:
    """Return the node that disagrees with others of its group on the network or the algorithm."""
    odd = [
        node
        for node, own in fleet.condition.environment.items()
        if fleet.shape.names[node] in job.nodes and {"NCCL_ALGO", "NCCL_IB_DISABLE"} & set(own)
    ]
    for node in odd:
        name = fleet.shape.names[node]
        ranks = tuple(job.ranks_of(name))
        if not any(_reaches(job, task, rank, 0, done) for rank in ranks):
            continue
        others = [fleet.number_of[other] for other in job.nodes if other != name]
        own, usual = (fleet.environment(job, each) for each in (node, others[0]))
        if any(own.get(key) != usual.get(key) for key in ("NCCL_ALGO", "NCCL_IB_DISABLE")):
            return Trouble("mixed", node, name, ranks, f"{task.plane}: connect", 1)
    return None


def _dead_link(fleet: MadeUpFleet, job: GateJob, task: Task, done: int) -> Trouble | None:
    for (node, rail), after in fleet.condition.dying_links.items():
        name = fleet.shape.names[node]
        if name not in job.nodes or job.per_node < fleet.shape.gpus:
            continue
        gpu = next(g for g in range(fleet.shape.gpus) if fleet.shape.rail_of(g) == rail)
        rank = job.ranks_of(name)[gpu]
        if not _reaches(job, task, rank, after, done):
            continue
        group = task.groups[task.group_of[rank]]
        nodes = list(dict.fromkeys(each // job.per_node for each in group))
        at = nodes.index(rank // job.per_node)
        near = {nodes[(at - 1) % len(nodes)], nodes[(at + 1) % len(nodes)]}
        peers = tuple((other * job.per_node + gpu, rail) for other in sorted(near))
        phase = f"{task.plane}: sweep"
        return Trouble("link-dies", node, name, (rank,), phase, 40 + 200 * done, rail, peers)
    return None
