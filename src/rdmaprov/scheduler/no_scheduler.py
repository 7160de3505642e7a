"""No scheduler: who uses a node is only known on the node, where apply refuses a busy one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rdmaprov.scheduler.model import MARK, NodeStatus


@dataclass(frozen=True)
class NoScheduler:
    """Says of each node that it drains, as a person keeps jobs off, until it is resumed."""

    resumed: set[str] = field(default_factory=set)

    def status(self, nodes: Sequence[str]) -> Mapping[str, NodeStatus]:
        """Return nodes that drain for us."""
        word = "no scheduler (scheduler_kind: none)"
        return {
            node: NodeStatus(node, word, node not in self.resumed, False, False, reason=MARK)
            for node in nodes
        }

    def drain(self, node: str, reason: str) -> None:  # noqa: ARG002
        """Do nothing: nothing can be told to keep jobs off."""
        self.resumed.discard(node)

    def resume(self, node: str) -> None:
        """Do nothing: nothing can be told that it is back."""
        self.resumed.add(node)

    def hold(self, nodes: Sequence[str], label: str, seconds: float) -> None:
        """Do nothing."""

    def release(self, nodes: Sequence[str], label: str) -> None:
        """Do nothing."""

    def resume_command(self, node: str) -> str:
        """Return nothing to type."""
        return f"return {node} to service by hand"
