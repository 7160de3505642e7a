"""Jobs on nodes: started, watched and ended, over the connections that are open anyway."""

import base64
import re
import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from typing import Protocol

from rdmaprov.acceptance.ask import shapes
from rdmaprov.acceptance.ask.nodes import Nodes, ask_nodes, program_command
from rdmaprov.acceptance.ranks import request
from rdmaprov.acceptance.ranks.plan import GateJob, Task
from rdmaprov.acceptance.ranks.request import start_request, task_file
from rdmaprov.acceptance.ranks.run import POLL_S, JobRun, NodeRun
from rdmaprov.acceptance.ranks.session import LiveSession, OnEvent
from rdmaprov.boundary import Document
from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.errors import NodeError

START_S = 60
STOP_S = 40
FETCH_S = 120
# After the first sign of failure: others notice it too, and report what they were at.
GRACE_S = 8
# A night of soak, and then some; without a controller, the lease ends it long before.
SESSION_S = 24 * 3600.0
# The port was free at the preflight; another program may have taken it, and then the next one.
_PORTS = 3
_PORT_TAKEN = re.compile(r"EADDRINUSE|address already in use", re.IGNORECASE)
_PLACES = ("/run", "/dev/shm", "/tmp")  # noqa: S108 - as node/supervisor.py has them


class RankSession(Protocol):
    """Ranks that are alive and wait for tasks."""

    runs: list[JobRun]  # one for each job, in their order; `good` once the session has ended

    def perform(self, tasks: Mapping[int, Task]) -> None:
        """Have jobs perform a task; return when all ranks finished it, or their job failed.

        Numbers of tasks ascend within a job. A job that has failed is left out. Without a request
        for LEASE_S, all ranks end; no tasks at all are a request, too.
        """


class JobRunner(Protocol):
    """Whatever can run jobs; another launcher needs this only."""

    def open(
        self, jobs: Sequence[GateJob], limit_s: float | None = None
    ) -> AbstractContextManager[RankSession]:
        """Start the ranks of jobs, and provide them; with the context, all of them end.

        The jobs' own tasks are left out. No node is in two jobs.
        """

    def run(self, jobs: Sequence[GateJob], limit_s: float | None = None) -> list[JobRun]:
        """Have jobs perform their own tasks, in order; return their runs."""


class Launcher:
    """Runs jobs on disjoint sets of nodes side by side, each by an agent on each node.

    Args:
        grace_s: seconds between the first sign of trouble and the end of a job.
    """

    def __init__(
        self, nodes: Nodes, on_event: OnEvent = lambda _event: None, grace_s: float = GRACE_S
    ) -> None:
        self._nodes = nodes
        self._grace_s = grace_s
        self._on_event = on_event

    @contextmanager
    def open(self, jobs: Sequence[GateJob], limit_s: float | None = None) -> Iterator[LiveSession]:
        """Start the ranks of jobs, and provide them; nothing is left on nodes that can be asked.

        Args:
            jobs: no node is in two of them; their own tasks are left out.
            limit_s: of the session; a day by default.
        """
        runs = [JobRun(replace(job, tasks=())) for job in jobs]
        with self._live(runs, lambda _job: limit_s or SESSION_S, ()) as session:
            yield session
            session.end()

    def run(self, jobs: Sequence[GateJob], limit_s: float | None = None) -> list[JobRun]:
        """Have jobs perform their tasks; nothing is left on the nodes that can be asked.

        Args:
            jobs: no node is in two of them.
            limit_s: of each job; its own by default.
        """
        runs = [JobRun(job) for job in jobs]
        limits = {index: limit_s or job.limit_s() for index, job in enumerate(jobs)}
        with self._live(runs, lambda job: limit_s or job.limit_s(), (None,)) as session:
            session.watch(limits, lambda _index: False)
        return runs

    @contextmanager
    def _live(
        self, runs: list[JobRun], limit_s: Callable[[GateJob], float], last: tuple[None, ...]
    ) -> Iterator[LiveSession]:
        """Provide a session whose ranks have their jobs' tasks, and then `last`."""
        for attempt in range(1, _PORTS + 1):
            by_node = {name: run for run in runs for name in run.job.nodes}
            # One for each node: in tests, several are on one machine.
            run_id = secrets.token_hex(6)
            marks = {name: f"rdmaprov-accept-{run_id}-{i}" for i, name in enumerate(by_node)}
            try:
                self._start(by_node, marks, limit_s, last)
                session = LiveSession(self._nodes, runs, self._on_event, self._grace_s)
                if attempt < _PORTS and self._is_port_taken(session):
                    runs[:] = [JobRun(replace(run.job, port=run.job.port + 1)) for run in runs]
                    continue
                yield session
                self._fetch(by_node)
            finally:
                self._stop(by_node, marks)
            return

    def _is_port_taken(self, session: LiveSession) -> bool:
        """Return whether a rendezvous could not bind its port, once ranks start or have failed."""
        runs = session.runs
        limits = {index: run.job.limits.start_s for index, run in enumerate(runs)}
        session.watch(limits, lambda index: _has_first_rank(runs[index]))
        failed = [event for run in runs for event in run.events_of("failed") if not event["rank"]]
        return any(_PORT_TAKEN.search(event["error"]) for event in failed)

    def _start(
        self,
        runs: Mapping[str, JobRun],
        marks: Mapping[str, str],
        limit_s: Callable[[GateJob], float],
        last: tuple[None, ...],
    ) -> None:
        files = {name: _first_files(run.job, name, last) for name, run in runs.items()}
        commands = {
            name: program_command(
                "supervisor",
                start_request(run.job, name, limit_s(run.job), files[name]),
                START_S,
                marks[name],
            )
            for name, run in runs.items()
        }
        for name, answer in ask_nodes(self._nodes, commands, lambda _: shapes.STARTED).items():
            job = runs[name].job
            node = runs[name].nodes[name] = NodeRun(
                own=job.ranks_of(name),
                world=job.world,
                tasks=runs[name].tasks,
                pushed=len(files[name]),
            )
            if isinstance(answer, NodeError):
                node.lost, node.why = True, str(answer)
            elif answer["directory"] not in [f"{place}/{marks[name]}" for place in _PLACES]:
                node.odd = "its supervisor names a directory that is none of a run's"
            else:
                node.directory = answer["directory"]

    def _fetch(self, runs: Mapping[str, JobRun]) -> None:
        """Get the evidence: standard error, and NCCL's logs where there are any."""
        started = {name: run.nodes[name] for name, run in runs.items()}
        started = {name: node for name, node in started.items() if node.directory and not node.lost}
        for name, answer in self._nodes.run_all(
            {name: _read_errors(node) for name, node in started.items()}
        ).items():
            if isinstance(answer, Answer):
                started[name].errors = answer.out
        wanted = {
            n: _pack_logs(node) for n, node in started.items() if runs[n].job.backend == "nccl"
        }
        for name, answer in self._nodes.run_all(wanted).items():
            if isinstance(answer, Answer) and answer.rc == 0:
                with suppress(ValueError):  # then it has none, and what they should show is unknown
                    started[name].logs = base64.b64decode(answer.out, validate=True)
        sampled = {n: node.directory for n, node in started.items() if runs[n].job.sampled}
        for commands in request.fetch_commands(sampled):
            for name, answer in self._nodes.run_all(commands).items():
                started[name].samples = request.samples_from(answer)

    def _stop(self, runs: Mapping[str, JobRun], marks: Mapping[str, str]) -> None:
        documents: dict[str, Document] = {
            name: {"verb": "stop", "mark": mark} for name, mark in marks.items()
        }
        names = [name for name, run in runs.items() if name in run.nodes or not run.nodes]
        commands = {name: program_command("supervisor", documents[name], STOP_S) for name in names}
        for name, answer in ask_nodes(self._nodes, commands, lambda _: shapes.STOPPED).items():
            if name in runs[name].nodes and not isinstance(answer, NodeError):
                runs[name].nodes[name].left = tuple(answer["left"])


def _first_files(job: GateJob, name: str, last: tuple[None, ...]) -> dict[str, bytes]:
    """Return the files of the tasks that a node's ranks have from the start."""
    tasks = [*job.tasks, *last]
    return dict(task_file(job, name, place, task) for place, task in enumerate(tasks))


def _has_first_rank(run: JobRun) -> bool:
    """Return whether rank 0 has the port."""
    return any(not event["rank"] for event in run.events_of("hello"))


def _read_errors(node: NodeRun) -> Command:
    return Command(f"tail -c 20000 {shlex.quote(node.directory)}/err", POLL_S)


def _pack_logs(node: NodeRun) -> Command:
    text = f"cd {shlex.quote(node.directory)} && tar czf - nccl.* | base64 -w0"
    return Command(text, FETCH_S)
