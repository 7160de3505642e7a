"""Ranks of each node alone: they stay from the stage `gpu` to the stage `host`.

To import torch again takes more than a minute where many nodes read it from one file server.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks import jobs
from rdmaprov.acceptance.ranks.launch import JobRunner, RankSession
from rdmaprov.acceptance.ranks.plan import GateJob, Task
from rdmaprov.acceptance.ranks.run import JobRun

_TASKS = 2  # that one start serves, at most


@dataclass
class RanksAlone:
    """A job for each node, all at once, whose ranks perform one task after the other.

    Args:
        limit_s: seconds that a task may take; None for what its parts may.
    """

    runner: JobRunner
    limit_s: float | None = None
    _stack: ExitStack = field(default_factory=ExitStack)
    _session: RankSession | None = None

    @contextmanager
    def opened(self) -> Iterator["RanksAlone"]:
        """Provide it; its ranks end with the context."""
        with self._stack:
            yield self

    def perform(self, site: GateSite, make: Callable[[GateJob, int], Task]) -> list[JobRun]:
        """Have each node of a site perform a task; return their runs, in the nodes' order.

        The ranks wait for the next task; where a run failed, all have ended, with their logs.

        Args:
            make: returns the task of a job, by its number.
        """
        names = [node.name for node in site.nodes]
        if self._session is None or not self._numbers(self._session).keys() >= set(names):
            self.end()
            limit_s = self.limit_s and _TASKS * self.limit_s
            own = [jobs.alone_job(site, node) for node in site.nodes]
            self._session = self._stack.enter_context(self.runner.open(own, limit_s))
        session, numbers = self._session, self._numbers(self._session)
        runs = {numbers[name]: session.runs[numbers[name]] for name in names}
        session.perform({n: make(run.job, len(run.tasks)) for n, run in runs.items()})
        if any(run.has_failed for run in runs.values()):
            self.end()
        return list(runs.values())

    def end(self) -> None:
        """End the ranks."""
        self._stack.close()
        self._session = None

    @staticmethod
    def _numbers(session: RankSession) -> dict[str, int]:
        return {run.job.nodes[0]: number for number, run in enumerate(session.runs)}
