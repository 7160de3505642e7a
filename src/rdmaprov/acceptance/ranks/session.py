"""Ranks that are alive: they get tasks over the open connections, and report."""

import time
from collections.abc import Callable, Mapping

from rdmaprov.acceptance.ask.nodes import Nodes
from rdmaprov.acceptance.ranks.events import RankEvent
from rdmaprov.acceptance.ranks.plan import Task
from rdmaprov.acceptance.ranks.request import LEASE_S, task_file
from rdmaprov.acceptance.ranks.run import JobRun, NodeRun

OnEvent = Callable[[RankEvent], None]
# A supervisor ends its ranks at the limit; what still runs after that is no supervisor of ours.
OVERTIME_S = LEASE_S + 60
# Between polls: short while something happens, so that a round takes little more than its work.
_LEAST_INTERVAL_S, _MOST_INTERVAL_S = 0.1, 1.0
_GROWTH = 1.5


class LiveSession:
    """Jobs whose ranks run and wait for tasks.

    Args:
        runs: one for each job; their nodes were asked to start.
        grace_s: seconds between the first sign of trouble and the end of a job.
    """

    def __init__(self, nodes: Nodes, runs: list[JobRun], on_event: OnEvent, grace_s: float) -> None:
        self.runs = runs
        self._nodes = nodes
        self._on_event = on_event
        self._grace_s = grace_s
        self._given: list[list[Task | None]] = [list(run.job.tasks) for run in runs]
        self._hurried: dict[str, tuple[str, bytes]] = {}  # what nodes are still to be told
        self._began = time.monotonic()
        self._patience = [float("inf")] * len(runs)

    def perform(self, tasks: Mapping[int, Task]) -> None:
        """Have jobs perform a task; return when all ranks finished it, or their job failed.

        A job that has failed is left out. Without tasks, this renews the leases.
        """
        given = {index: task for index, task in tasks.items() if not self._is_ended(index)}
        for index, task in given.items():
            self.runs[index].tasks[task.number] = task
            self._given[index].append(task)
        limits = {index: self._limit_s(index, task) for index, task in given.items()}
        told: set[int] = set()

        def is_done(index: int) -> bool:
            run, task = self.runs[index], given[index]
            if index not in told and self._hurry(run, task):
                told.add(index)
            return run.is_finished(task.number)

        self.watch(limits, is_done)
        self._hurried.clear()
        if not tasks:
            self._poll()

    def _hurry(self, run: JobRun, task: Task) -> bool:
        """Have the steps of a task's last groups end sooner, once most have ended."""
        late, seconds = run.late_groups(task)
        limit = run.job.limits.hurried_s(len(task.groups), len(late), seconds)
        if not late or limit >= run.job.limits.step:
            return False
        names = {run.job.node_of(rank) for number in late for rank in task.groups[number]}
        file = f"hurry.{task.number}", f"{limit:g}".encode()  # agent/progress.py reads it
        self._hurried.update(dict.fromkeys(names, file))
        return True

    def end(self) -> None:
        """Have the ranks end that still wait for a task; return when they did."""
        alive = [index for index in range(len(self.runs)) if not self._is_ended(index)]
        for index in alive:
            self._given[index].append(None)
        limits = {index: self.runs[index].job.limits.task_s(_NOTHING) for index in alive}
        self.watch(limits, lambda _index: False)

    def watch(self, limits_s: Mapping[int, float], is_done: Callable[[int], bool]) -> None:
        """Poll until jobs are done, have failed or are over.

        Args:
            limits_s: by the number of the job; what runs longer is given up.
        """
        began, interval = time.monotonic(), _LEAST_INTERVAL_S
        while waiting := [i for i in limits_s if not is_done(i) and not self._is_ended(i)]:
            busy = self._poll()
            for index in waiting:
                self._judge(index, began + limits_s[index] + OVERTIME_S)
            interval = _LEAST_INTERVAL_S if busy else min(_MOST_INTERVAL_S, interval * _GROWTH)
            if any(not is_done(i) and not self._is_ended(i) for i in waiting):
                time.sleep(interval)

    def _limit_s(self, index: int, task: Task) -> float:
        """Return how long a task may take; the first one waits for the ranks to start."""
        limits = self.runs[index].job.limits
        first = len(self._given[index]) == 1
        return limits.task_s(task) + (limits.start_s if first else 0)

    def _is_ended(self, index: int) -> bool:
        return self.runs[index].is_over or time.monotonic() >= self._patience[index]

    def _judge(self, index: int, last: float) -> None:
        run, now = self.runs[index], time.monotonic()
        if now > last:
            run.give_up(f"it did not end its ranks {OVERTIME_S} s after the time limit")
        if run.has_failed and self._patience[index] == float("inf"):
            self._patience[index] = now + self._grace_s

    def _poll(self) -> bool:
        """Ask all nodes that are there; return whether anything was new."""
        asked: dict[str, tuple[int, NodeRun]] = {
            name: (index, node)
            for index, run in enumerate(self.runs)
            for name, node in run.nodes.items()
            if not node.is_over and not self._is_ended(index)
        }
        files = {name: self._next_file(index, name, node) for name, (index, node) in asked.items()}
        given = {name: files[name] or self._hurried.get(name) for name in asked}
        answers = self._nodes.run_all(
            {name: node.poll_command(given[name]) for name, (_, node) in asked.items()}
        )
        busy = any(files.values())
        for name, answer in answers.items():
            index, node = asked[name]
            for event in node.take_answer(answer, files[name] is not None):
                busy = True
                self.runs[index].take_event(event)
                self._on_event(event)
        return busy

    def _next_file(self, index: int, name: str, node: NodeRun) -> tuple[str, bytes] | None:
        """Return the next task that a node does not have yet."""
        given = self._given[index]
        if node.pushed >= len(given):
            return None
        return task_file(self.runs[index].job, name, node.pushed, given[node.pushed])


_NOTHING = Task(0, "", "", (), limit_s=0)
