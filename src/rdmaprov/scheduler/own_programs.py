"""A scheduler that the site's own three programs speak to, such as Kubernetes' kubectl."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rdmaprov.problem import printable
from rdmaprov.scheduler.model import NodeStatus, our_reason
from rdmaprov.scheduler.programs import SchedulerError, ask

NODE, REASON = "{node}", "{reason}"
# The first word of the state program → whether the node drains, and whether a job has it.
STATES = {
    "idle": (False, False),
    "busy": (False, True),
    "draining": (True, True),
    "drained": (True, False),
    "down": (False, False),
}


@dataclass(frozen=True)
class OwnPrograms:
    """Three programs, as lists of words with {node} and {reason}."""

    state: tuple[str, ...]  # prints one of STATES, then the reason if there is one, on one line
    drain_words: tuple[str, ...]
    resume_words: tuple[str, ...]

    def status(self, nodes: Sequence[str]) -> Mapping[str, NodeStatus]:
        """Return the state of each node, one program after the other."""
        return {node: self._status(node) for node in nodes}

    def _status(self, node: str) -> NodeStatus:
        argv = _words(self.state, node)
        lines = _run(argv).strip().splitlines()
        word, _, reason = (lines[0] if lines else "").strip().partition(" ")
        if word not in STATES:
            said = printable(word)[:60] or "nothing"
            message = f"{argv[0]}: it printed {said} as the state of {node}"
            raise SchedulerError(message, f"It must print one of {', '.join(STATES)}")
        drains, busy = STATES[word]
        why = printable(reason.strip())
        return NodeStatus(node, word, drains, busy, word == "idle", word != "down", why)

    def drain(self, node: str, reason: str) -> None:
        """Have a node get no new job."""
        _run(_words(self.drain_words, node, reason))

    def resume(self, node: str) -> None:
        """Return a node to service."""
        _run(_words(self.resume_words, node))

    def hold(self, nodes: Sequence[str], label: str, seconds: float) -> None:  # noqa: ARG002
        """Drain nodes; they have no reservation that ends by itself."""
        for node in nodes:
            self.drain(node, our_reason(label))

    def release(self, nodes: Sequence[str], label: str) -> None:
        """Resume those that still drain for this."""
        for node, status in self.status(nodes).items():
            if status.drains and status.reason == our_reason(label):
                self.resume(node)

    def resume_command(self, node: str) -> str:
        """Return the site's command."""
        return shlex.join(_words(self.resume_words, node))


def _words(words: Sequence[str], node: str, reason: str = "") -> list[str]:
    return [word.replace(NODE, node).replace(REASON, reason) for word in words]


def _run(argv: Sequence[str]) -> str:
    return ask(argv, f"Run it by hand: {shlex.join(argv)}")
