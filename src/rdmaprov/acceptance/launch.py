"""Jobs on nodes: started, watched and ended, over the connections that are open anyway."""

from __future__ import annotations

import base64
import secrets
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from rdmaprov.acceptance import shapes
from rdmaprov.acceptance.job_run import POLL_S, JobRun, NodeRun
from rdmaprov.acceptance.nodes import Document, Nodes, ask_nodes, program_command
from rdmaprov.acceptance.plan import LEASE_S, GateJob, start_request
from rdmaprov.acceptance.rank_events import RankEvent
from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.errors import NodeError

OnEvent = Callable[[RankEvent], None]
START_S = 60
STOP_S = 40
FETCH_S = 120
# After the first sign of failure: others notice it too, and report what they were at.
GRACE_S = 8
# A supervisor ends its ranks at the limit; what still runs after that is no supervisor of ours.
OVERTIME_S = LEASE_S + 60
_PLACES = ("/run", "/dev/shm", "/tmp")  # noqa: S108 - as node/supervisor.py has them
_INTERVAL_S = 1.0


class JobRunner(Protocol):
    """Whatever can run jobs; another launcher needs this only."""

    def run(self, jobs: Sequence[GateJob]) -> list[JobRun]:
        """Run jobs and return their runs; no node is in two of them."""


class Launcher:
    """Runs jobs on disjoint sets of nodes side by side, each by a torchrun for each node.

    Args:
        nodes: the connections.
        on_event: is called with each event at once.
        grace_s: seconds between the first sign of trouble and the end of a job.

    """

    def __init__(
        self, nodes: Nodes, on_event: OnEvent = lambda _event: None, grace_s: float = GRACE_S
    ) -> None:
        self._nodes = nodes
        self._grace_s = grace_s
        self._on_event = on_event

    def run(self, jobs: Sequence[GateJob], limit_s: float | None = None) -> list[JobRun]:
        """Run jobs and return their runs; nothing is left on the nodes that can be asked.

        Args:
            jobs: no node is in two of them.
            limit_s: of each job; its own by default.

        """
        runs = [JobRun(job) for job in jobs]
        by_node = {name: run for run in runs for name in run.job.nodes}
        # One for each node: in tests, several are on one machine.
        run_id = secrets.token_hex(6)
        marks = {name: f"rdmaprov-accept-{run_id}-{i}" for i, name in enumerate(by_node)}
        try:
            self._start(by_node, marks, limit_s)
            self._watch(runs, limit_s)
            self._fetch(by_node)
        finally:
            self._stop(by_node, marks)
        return runs

    def _start(
        self, runs: Mapping[str, JobRun], marks: Mapping[str, str], limit_s: float | None
    ) -> None:
        commands = {
            name: program_command(
                "supervisor",
                start_request(run.job, name, limit_s or run.job.limit_s()),
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
                planes=tuple(plane.name for plane in job.planes),
            )
            if isinstance(answer, NodeError):
                node.lost, node.why = True, str(answer)
            elif answer["directory"] not in [f"{place}/{marks[name]}" for place in _PLACES]:
                node.odd = "its supervisor names a directory that is none of a run's"
            else:
                node.directory = answer["directory"]

    def _watch(self, runs: Sequence[JobRun], limit_s: float | None) -> None:
        began = time.monotonic()
        last = {id(run): began + (limit_s or run.job.limit_s()) + OVERTIME_S for run in runs}
        patience = dict.fromkeys(last, float("inf"))
        while True:
            at_work = [run for run in runs if not all(n.is_over for n in run.nodes.values())]
            at_work = [run for run in at_work if time.monotonic() < patience[id(run)]]
            if not at_work:
                return
            self._poll(at_work)
            for run in at_work:
                if time.monotonic() > last[id(run)]:
                    run.give_up(f"it did not end its ranks {OVERTIME_S} s after the time limit")
                if run.has_failed and patience[id(run)] == float("inf"):
                    patience[id(run)] = time.monotonic() + self._grace_s
            time.sleep(_INTERVAL_S)

    def _poll(self, runs: Sequence[JobRun]) -> None:
        nodes = {
            name: (run, node)
            for run in runs
            for name, node in run.nodes.items()
            if not node.is_over
        }
        answers = self._nodes.run_all(
            {name: node.poll_command() for name, (_, node) in nodes.items()}
        )
        for name, answer in answers.items():
            run, node = nodes[name]
            for event in node.take_answer(answer):
                run.events.append(event)
                self._on_event(event)

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

    def _stop(self, runs: Mapping[str, JobRun], marks: Mapping[str, str]) -> None:
        documents: dict[str, Document] = {
            name: {"verb": "stop", "mark": mark} for name, mark in marks.items()
        }
        names = [name for name, run in runs.items() if name in run.nodes or not run.nodes]
        commands = {name: program_command("supervisor", documents[name], STOP_S) for name in names}
        for name, answer in ask_nodes(self._nodes, commands, lambda _: shapes.STOPPED).items():
            if name in runs[name].nodes and not isinstance(answer, NodeError):
                runs[name].nodes[name].left = tuple(answer["left"])


def _read_errors(node: NodeRun) -> Command:
    return Command(f"tail -c 20000 {shlex.quote(node.directory)}/err", POLL_S)


def _pack_logs(node: NodeRun) -> Command:
    text = f"cd {shlex.quote(node.directory)} && tar czf - nccl.* | base64 -w0"
    return Command(text, FETCH_S)
