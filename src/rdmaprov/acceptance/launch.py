"""Jobs on nodes: started, watched and ended, over the connections that are open anyway."""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from rdmaprov.acceptance.nodes import Document, Nodes, ask_nodes, program_command
from rdmaprov.acceptance.plan import GateJob, start_request
from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.errors import NodeError

RankEvent = Mapping[str, Any]
OnEvent = Callable[[RankEvent], None]
START_S = 60
POLL_S = 30
STOP_S = 40
FETCH_S = 120
# After the first sign of failure: others notice it too, and report what they were at.
GRACE_S = 8
_INTERVAL_S = 1.0
_CHUNK_BYTES = 4 << 20


@dataclass
class NodeRun:
    """A job on one node, as far as it is known.

    Attributes:
        directory: where it runs; empty if it never started.
        rc: torchrun's exit status; None while it runs or if it is not known.
        why: why it ended, or why nothing is known of it.
        ranks: what each rank was at last.
        errors: the end of what it wrote to standard error.
        logs: files that were fetched.
        lost: whether the node stopped answering.
        left: processes that could not be ended; None if that is not known.

    """

    directory: str = ""
    rc: int | None = None
    why: str = ""
    ranks: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    errors: str = ""
    logs: bytes = b""
    lost: bool = False
    left: tuple[int, ...] | None = None
    _read: int = 0
    _rest: str = ""

    @property
    def is_over(self) -> bool:
        """Return whether nothing more will come."""
        return self.rc is not None or self.lost

    def poll_command(self) -> Command:
        """Return the command that reads what is new, and renews the lease."""
        text = (
            f"cd {shlex.quote(self.directory)} && touch lease && "
            "{ cat status 2>/dev/null || echo '{}'; } && "
            f"tail -c +{self._read + 1} out | head -c {_CHUNK_BYTES}"
        )
        return Command(text, POLL_S)

    def take_answer(self, answer: Answer | NodeError) -> Iterator[RankEvent]:
        """Take in an answer; yield the events in it."""
        if isinstance(answer, NodeError):
            self.lost, self.why = True, str(answer)
            return
        head, _, text = answer.out.partition("\n")
        if answer.rc != 0 or not head.startswith("{"):
            self.lost, self.why = True, "its supervisor is gone: something on the node ended it"
            return
        status = json.loads(head)
        self._read += len(text.encode("utf-8", "surrogateescape"))
        *lines, self._rest = (self._rest + text).split("\n")
        self.ranks.update({int(rank): at for rank, at in status.get("ranks", {}).items()})
        if not text:
            # Only what comes after the last output is the end.
            self.rc, self.why = status.get("rc"), status.get("why", "")
        yield from _parse_events(lines)


def _parse_events(lines: Iterable[str]) -> Iterator[RankEvent]:
    """Yield the lines that are events; whatever else a library prints is passed over."""
    for line in lines:
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict) and "event" in event and "rank" in event:
                yield event


@dataclass
class JobRun:
    """A run of a job, as far as it is known.

    Attributes:
        job: what was asked for.
        events: what its ranks reported, in the order of arrival.
        nodes: its nodes.

    """

    job: GateJob
    events: list[RankEvent] = field(default_factory=list)
    nodes: dict[str, NodeRun] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Return whether it ran to its end on all nodes."""
        return all(node.rc == 0 for node in self.nodes.values())

    def events_of(self, kind: str) -> list[RankEvent]:
        """Return the events of a kind."""
        return [event for event in self.events if event["event"] == kind]

    @property
    def has_failed(self) -> bool:
        """Return whether it cannot succeed any more."""
        return any(node.lost or node.rc not in (None, 0) for node in self.nodes.values()) or any(
            event["event"] in ("failed", "late", "missing") for event in self.events
        )


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
            self._watch(runs)
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
        for name, answer in ask_nodes(self._nodes, commands).items():
            node = runs[name].nodes[name] = NodeRun()
            if isinstance(answer, NodeError):
                node.lost, node.why = True, str(answer)
            else:
                node.directory = str(answer["directory"])

    def _watch(self, runs: Sequence[JobRun]) -> None:
        patience = {id(run): float("inf") for run in runs}
        while True:
            at_work = [run for run in runs if not all(n.is_over for n in run.nodes.values())]
            at_work = [run for run in at_work if time.monotonic() < patience[id(run)]]
            if not at_work:
                return
            self._poll(at_work)
            for run in at_work:
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
                started[name].logs = base64.b64decode(answer.out)

    def _stop(self, runs: Mapping[str, JobRun], marks: Mapping[str, str]) -> None:
        documents: dict[str, Document] = {
            name: {"verb": "stop", "mark": mark} for name, mark in marks.items()
        }
        names = [name for name, run in runs.items() if name in run.nodes or not run.nodes]
        commands = {name: program_command("supervisor", documents[name], STOP_S) for name in names}
        for name, answer in ask_nodes(self._nodes, commands).items():
            if name in runs[name].nodes and not isinstance(answer, NodeError):
                runs[name].nodes[name].left = tuple(answer["left"])


def _read_errors(node: NodeRun) -> Command:
    return Command(f"tail -c 20000 {shlex.quote(node.directory)}/err", POLL_S)


def _pack_logs(node: NodeRun) -> Command:
    text = f"cd {shlex.quote(node.directory)} && tar czf - nccl.* | base64 -w0"
    return Command(text, FETCH_S)
