"""What is known of a node's place in a scheduler, and what a scheduler is asked to do."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rdmaprov.problem import printable

MARK = "rdmaprov:"  # `sinfo -R` shows 20 characters of a reason [sinfo(1), -R], so it is short
_MOST_REASON = 200  # characters of ours; enough for a step, a run's name and what to do
_ODD = re.compile(r"[^A-Za-z0-9 .,:;/()_+-]+")


@dataclass(frozen=True)
class NodeStatus:
    """A node as its scheduler has it."""

    node: str
    word: str  # the scheduler's own word for its state, for a message
    drains: bool
    busy: bool  # whether a job has it, or still leaves it
    idle: bool  # whether it could get a job now, and has none
    up: bool = True
    reason: str = ""  # why it drains or is down, empty without one
    jobs: tuple[str, ...] = ()
    # whether it has none, and the scheduler keeps it for one that waits for more nodes
    planned: bool = False

    @property
    def is_ours(self) -> bool:
        """Return whether it drains by a reason that rdmaprov wrote."""
        return self.drains and self.reason.startswith(MARK)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing runs on it, and nothing can start."""
        return self.drains and not self.busy

    @property
    def text(self) -> str:
        """Return its state on one line: the word, the reason, the jobs."""
        parts = [self.word]
        if self.reason not in ("", MARK):
            parts.append(f"({self.reason})")
        if self.jobs:
            parts.append(f"job{'s' if len(self.jobs) > 1 else ''} {', '.join(self.jobs[:5])}")
        return printable(" ".join(parts))


class Scheduler(Protocol):
    """Gives nodes to jobs; each call asks anew. What it cannot answer is a SchedulerError."""

    def status(self, nodes: Sequence[str]) -> Mapping[str, NodeStatus]:
        """Return the state of each node."""

    def drain(self, node: str, reason: str) -> None:
        """Have a node get no new job; it overwrites the reason that is there."""

    def resume(self, node: str) -> None:
        """Return a drained node to service."""

    def hold(self, nodes: Sequence[str], label: str, seconds: float) -> None:
        """Keep jobs off nodes that are in service, for a time at most."""

    def release(self, nodes: Sequence[str], label: str) -> None:
        """End what `hold` began; nothing happens where it has ended."""

    def resume_command(self, node: str) -> str:
        """Return what a person types to return a node that somebody else drained."""


def our_reason(text: str) -> str:
    """Return a reason with our mark, of letters that no scheduler reads as anything else.

    >>> our_reason('replace "n1"\\n')
    'rdmaprov: replace n1'
    """
    words = _ODD.sub(" ", text).split()
    return " ".join([MARK, *words])[:_MOST_REASON].rstrip()
