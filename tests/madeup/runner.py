"""Runs jobs on a made-up fleet; implements acceptance.launch.JobRunner."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.madeup.clock import USUAL, Clock, Cost, slowest
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.logs import JobLogs
from tests.madeup.trouble import Trouble, find_trouble
from tests.madeup.work import perform

from rdmaprov.acceptance.agent.rank import KEPT_TASKS
from rdmaprov.acceptance.ranks.launch import GRACE_S
from rdmaprov.acceptance.ranks.plan import GateJob, Task
from rdmaprov.acceptance.ranks.run import JobRun, NodeRun

_NO_DATA = ("gpu",)  # without a communicator (agent/tasks.py)
Event = Mapping[str, Any]


def _with_connect(events: Sequence[Event], ranks: int) -> Iterator[Event]:
    connect_s = USUAL.connect(ranks)
    for event in events:
        yield {**event, "seconds": event["seconds"] + connect_s} if "seconds" in event else event


class MadeUpSession:
    """Ranks of jobs on a made-up fleet; implements acceptance.launch.Session."""

    def __init__(self, fleet: MadeUpFleet, jobs: Sequence[GateJob], say: Callable[[Event], None]):
        self.runs = [JobRun(job) for job in jobs]
        self._fleet, self._say = fleet, say
        self._logs = [JobLogs(fleet, job) for job in jobs]
        self._done: list[int] = [0] * len(jobs)
        self._used: list[dict[tuple[str, tuple[int, ...]], int]] = [{} for _ in jobs]
        ranks = max((job.world for job in jobs), default=0)
        fleet.start_ranks()
        fleet.pass_time(lambda clock: clock.start(ranks))
        # What a job waits for in vain, it waits for while others work.
        self._waits = [self._start(run) for run in self.runs]

    def _start(self, run: JobRun) -> Cost:
        for name in run.job.nodes:
            run.nodes[name] = NodeRun(
                directory="/run/rdmaprov-accept-0",
                own=run.job.ranks_of(name),
                world=run.job.world,
                tasks=run.tasks,
                left=(),
            )
        versions = {"torch": "2.9.0", "nccl": "2.27.5"}
        for rank in range(run.job.world):
            node = self._fleet.number_of[run.job.node_of(rank)]
            own = {**versions, **self._fleet.condition.versions.get(node, {})}
            self._take(run, {"event": "phase", "rank": rank, "phase": "import torch"})
            self._take(run, {"event": "hello", "rank": rank, "pid": 4000 + rank % 8, **own})
            self._take(run, {"event": "phase", "rank": rank, "phase": "rendezvous"})
        return self._fail(run, find_trouble(self._fleet, run.job, None, 0))

    def perform(self, tasks: Mapping[int, Task]) -> None:
        """Have jobs perform a task, side by side."""
        costs, self._waits = self._waits, []
        for index, task in tasks.items():
            run = self.runs[index]
            if run.has_failed:
                continue
            run.tasks[task.number] = task
            costs.append(self._perform(index, run, task))
        self._fleet.pass_time(slowest(costs))

    def _perform(self, index: int, run: JobRun, task: Task) -> Cost:
        trouble = find_trouble(self._fleet, run.job, task, self._done[index])
        if trouble is not None:
            self._logs[index].begin_task(task, trouble.what != "mixed")
            if trouble.waits:
                return self._hang(index, run, task, trouble)
            return self._fail(run, trouble, self._logs[index])
        ranks = self._connect(index, task)
        done = perform(self._fleet, run.job, task)
        if task.collective != "gpu":  # no communicator, so NCCL says nothing
            self._logs[index].add_task(task, done)
        for event in _with_connect(done.events, ranks):
            self._take(run, event)
        outside = [g for g in task.groups if len({r // run.job.per_node for r in g}) > 1]
        self._done[index] += bool(outside)
        is_all = task.collective == "all_to_all"
        return lambda clock: clock.connect(ranks, all_to_all=is_all) + done.seconds

    def _connect(self, index: int, task: Task) -> int:
        """Return the ranks of the largest communicator that a task makes, as agent/rank.py does."""
        used, most = self._used[index], 0
        if task.collective in _NO_DATA:
            return 0
        for key in [key for key, last in used.items() if last + KEPT_TASKS < task.number]:
            del used[key]
        for ranks in task.groups:
            if used.pop((task.plane, ranks), None) is None:
                most = max(most, len(ranks))
            if task.collective != "exchange":  # which drops its own
                used[task.plane, ranks] = task.number
        return most

    def _hang(self, index: int, run: JobRun, task: Task, trouble: Trouble) -> Cost:
        """Have the groups end in which nobody hangs, and then, by their time, the others."""
        stuck = set(trouble.waits)
        groups = [at for at, ranks in enumerate(task.groups) if stuck.isdisjoint(ranks)]
        rest = replace(task, groups=tuple(task.groups[at] for at in groups))
        ranks = self._connect(index, task)
        done = perform(self._fleet, run.job, rest)
        many, late = len(task.groups), len(task.groups) - len(groups)

        def step(clock: Clock) -> float:
            return run.job.limits.hurried_s(many, late, clock.connect(ranks) + done.seconds)

        for event in _with_connect(done.events, ranks):
            if event["rank"] not in stuck:
                own = {"group": groups[event["group"]]} if "group" in event else {}
                self._take(run, {**event, **own})
        self._fail(run, trouble, self._logs[index], step(USUAL))
        return lambda clock: clock.connect(ranks) + max(done.seconds, step(clock)) + GRACE_S

    def _take(self, run: JobRun, event: Event) -> None:
        run.take_event(event)
        self._say(event)

    def _fail(
        self,
        run: JobRun,
        trouble: Trouble | None,
        logs: JobLogs | None = None,
        step_s: float | None = None,
    ) -> Cost:
        if trouble is None:
            return lambda _clock: 0.0
        step_s = run.job.limits.step if step_s is None else step_s
        seconds = trouble.apply(run, self._say, logs, step_s) + GRACE_S
        return lambda _clock: seconds

    def end(self) -> None:
        """End the ranks that still run, and hand over what they wrote."""
        self._fleet.pass_time(slowest(self._waits))
        self._fleet.pass_time(lambda clock: clock.end_s)
        for run, logs in zip(self.runs, self._logs, strict=True):
            failed = run.has_failed
            if not failed:
                for rank in range(run.job.world):
                    self._take(run, {"event": "done", "rank": rank})
            for name, node in run.nodes.items():
                if not failed:
                    node.rc = 0
                if not node.lost and run.job.backend == "nccl":
                    node.logs = logs.packed(name)


class MadeUpRunner:
    """Opens sessions on a made-up fleet; of `tasks`, those side by side are one."""

    def __init__(
        self, fleet: MadeUpFleet, on_event: Callable[[Event], None] = lambda _event: None
    ) -> None:
        self._fleet, self._on_event = fleet, on_event
        self.sessions = self.tasks = 0

    @contextmanager
    def open(
        self, jobs: Sequence[GateJob], limit_s: float | None = None
    ) -> Iterator[MadeUpSession]:
        del limit_s
        self.sessions += 1
        bare = [replace(job, tasks=()) for job in jobs]
        session = MadeUpSession(self._fleet, bare, self._on_event)
        inner = session.perform

        def counted(tasks: Mapping[int, Task]) -> None:
            self.tasks += 1
            inner(tasks)

        session.perform = counted  # type: ignore[method-assign]
        yield session
        session.end()

    def run(self, jobs: Sequence[GateJob], limit_s: float | None = None) -> list[JobRun]:
        with self.open(jobs, limit_s) as session:
            for place in range(max((len(job.tasks) for job in jobs), default=0)):
                session.perform(
                    {
                        index: job.tasks[place]
                        for index, job in enumerate(jobs)
                        if place < len(job.tasks)
                    }
                )
        return session.runs
