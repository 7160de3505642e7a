"""What is known of a job that runs on nodes: what each node answered, what the ranks reported."""

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rdmaprov.acceptance.ranks.events import (
    MOST_EVENTS,
    MOST_LINE,
    MOST_OUTPUT_BYTES,
    RankEvent,
    parse_event,
    parse_status,
)
from rdmaprov.acceptance.ranks.plan import GateJob, Task
from rdmaprov.boundary import OddAnswer
from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.errors import NodeError

# A poll takes milliseconds. Twice this, and the probe's grace, is less than the lease: while a node
# that is silent is waited for, no other is asked.
POLL_S = 20
MOST_MISSED = 2
_CHUNK_BYTES = 4 << 20
# NCCL cuts these lines after 1 KiB, and prints some for each communicator.
_DIAGNOSTIC, _MOST_DIAGNOSTIC, _MOST_DIAGNOSTICS = "NCCL DIAG ", 2048, 4096


@dataclass
class NodeRun:
    """A job on one node, as far as it is known.

    Attributes:
        directory: where it runs; empty if it never started.
        rc: the agent's exit status; None while it runs or if it is not known.
        why: why it ended, or why nothing is known of it.
        ranks: what each rank was at last.
        ended: exit statuses of its ranks that failed, the first ones first; a signal's is negative.
        errors: the end of what it wrote to standard error.
        diagnostics: lines of NCCL's diagnostics, which its ranks print to standard output.
        samples: what its sampler wrote of its rails; empty if there is nothing.
        lost: whether the node stopped answering.
        odd: why what it answers cannot be used; empty if it can.
        tasks: those that its ranks were given, by number; None to take any event.
        left: processes that could not be ended; None if that is not known.
    """

    directory: str = ""
    rc: int | None = None
    why: str = ""
    ranks: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)
    errors: str = ""
    logs: bytes = b""
    diagnostics: list[str] = field(default_factory=list)
    samples: bytes = b""
    lost: bool = False
    odd: str = ""
    own: range = range(0)
    world: int = 0
    tasks: Mapping[int, Task] | None = None
    pushed: int = 0
    left: tuple[int, ...] | None = None
    _read: int = 0
    _events: int = 0
    _missed: int = 0
    _rest: str = ""

    @property
    def is_over(self) -> bool:
        """Return whether nothing more will come."""
        return self.rc is not None or self.lost or bool(self.odd)

    def poll_command(self, file: tuple[str, bytes] | None = None) -> Command:
        """Return the command that reads what is new, and renews the lease.

        Args:
            file: name, by our own numbers, and content of a task that goes along, whole or not at
                all. Repeating it does no harm.
        """
        name, content = file or ("", b"")
        push = (
            f"cat > {name}.new && [ $(wc -c < {name}.new) -eq {len(content)} ] && "
            f"mv {name}.new {name} && "
        )
        text = (
            f"cd {shlex.quote(self.directory)} && touch lease && {push if name else ''}"
            "{ cat status 2>/dev/null || echo '{}'; } && "
            f"tail -c +{self._read + 1} out | head -c {_CHUNK_BYTES}"
        )
        return Command(text, POLL_S, content)

    def take_answer(self, answer: Answer | NodeError, pushes: bool = False) -> Iterator[RankEvent]:
        """Take in an answer; yield the events in it. One that is odd ends what is taken from it.

        Args:
            answer: to a poll; one that is missing may be asked for again, within the lease.
        """
        if isinstance(answer, NodeError):
            self._missed += 1
            self.lost, self.why = self._missed >= MOST_MISSED, str(answer)
            return
        self._missed = 0
        head, _, text = answer.out.partition("\n")
        if answer.rc != 0 or not head.startswith("{"):
            self.lost, self.why = True, "its supervisor is gone: something on the node ended it"
            return
        self.why = ""
        self.pushed += pushes
        try:
            yield from self._take_output(parse_status(head, self.own), text)
        except OddAnswer as error:
            self.odd = str(error)

    def _take_output(self, status: Mapping[str, Any], text: str) -> Iterator[RankEvent]:
        self._read += len(text.encode("utf-8", "surrogateescape"))
        if self._read > MOST_OUTPUT_BYTES:
            raise OddAnswer(f"its ranks print more than {MOST_OUTPUT_BYTES >> 20} MiB")
        *lines, self._rest = (self._rest + text).split("\n")
        if len(self._rest) > MOST_LINE:
            raise OddAnswer(f"a line of its ranks exceeds {MOST_LINE} characters")
        self.ranks.update({int(rank): at for rank, at in status["ranks"].items()})
        for line in lines:
            event = parse_event(line, self.own, self.world, self.tasks)
            if event is None:
                self._take_diagnostic(line)
                continue
            self._events += 1
            if self._events > MOST_EVENTS:
                raise OddAnswer(f"its ranks report more than {MOST_EVENTS} events")
            if event["event"] == "ended":
                self.ended[event["rank"]] = event["status"]
            yield event
        if not text:
            # Only what comes after the last output is the end.
            self.rc, self.why = status["rc"], status["why"]

    def _take_diagnostic(self, line: str) -> None:
        if _DIAGNOSTIC in line and len(self.diagnostics) < _MOST_DIAGNOSTICS:
            self.diagnostics.append(line[:_MOST_DIAGNOSTIC])


@dataclass
class JobRun:
    """A run of a job, as far as it is known.

    Attributes:
        events: what its ranks reported, in the order of arrival.
        tasks: what its ranks were given, by number; at first those of the job.
    """

    job: GateJob
    events: list[RankEvent] = field(default_factory=list)
    nodes: dict[str, NodeRun] = field(default_factory=dict)
    tasks: dict[int, Task] = field(default_factory=dict)
    _finished: dict[int, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))
    _read: int = 0  # of the events, those in which nobody gives up
    _gave_up: bool = False

    def __post_init__(self) -> None:
        """Begin with the tasks of the job."""
        self.tasks.update({task.number: task for task in self.job.tasks})

    def take_event(self, event: RankEvent) -> None:
        """Take in what a rank reported."""
        self.events.append(event)
        if event["event"] == "finished":
            self._finished[event["task"]][event["rank"]] = float(event.get("seconds", 0))

    def is_finished(self, task: int) -> bool:
        """Return whether all ranks reported the end of a task."""
        return len(self._finished[task]) >= self.job.world

    def late_groups(self, task: Task) -> tuple[list[int], float]:
        """Return the groups of a task that have not ended, and how long the others took."""
        done = self._finished[task.number]
        late = [n for n, ranks in enumerate(task.groups) if not done.keys() >= set(ranks)]
        waiting = {rank for number in late for rank in task.groups[number]}
        return late, max((s for rank, s in done.items() if rank not in waiting), default=0.0)

    @property
    def good(self) -> bool:
        """Return whether it ran to its end on all nodes."""
        return all(node.rc == 0 for node in self.nodes.values())

    @property
    def is_over(self) -> bool:
        """Return whether nothing more will come from any node."""
        return all(node.is_over for node in self.nodes.values())

    def give_up(self, why: str) -> None:
        """Take nothing more from the nodes that should have ended long ago."""
        for node in self.nodes.values():
            if not node.is_over:
                node.odd = why

    def events_of(self, kind: str) -> list[RankEvent]:
        """Return the events of a kind."""
        return [event for event in self.events if event["event"] == kind]

    @property
    def has_failed(self) -> bool:
        """Return whether it cannot succeed any more."""
        if any(n.lost or n.odd or n.rc not in (None, 0) for n in self.nodes.values()):
            return True
        # It is asked after each task, of ranks that have said hundreds of thousands of things.
        fresh = self.events[self._read :]
        self._gave_up |= any(event["event"] in ("failed", "late", "missing") for event in fresh)
        self._read = len(self.events)
        return self._gave_up
