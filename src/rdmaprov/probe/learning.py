"""Which commands to fetch ahead, from those that were asked for so far."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Learning:
    """What tests ask of the first node, they will ask of the others.

    The first node that answers is asked command by command. When the next node is asked
    something, all others get the whole list at once. A command that two nodes were asked since
    then belongs to the list too: it is of hardware that the first node does not have, or of tests
    that look at all nodes. One that a single node was asked is its own, such as with its address.
    """

    nodes: tuple[str, ...]  # all that will be asked, in their order
    # whether the list goes to all nodes at once, or to each when its turn comes
    together: bool = True
    _teacher: str = ""
    _list: dict[str, None] = field(default_factory=dict)
    _served: set[str] = field(default_factory=set)
    _once: dict[str, str] = field(default_factory=dict)

    def plan(self, node: str, command: str) -> dict[str, list[str]]:
        """Note a question that has no answer yet; return what to fetch now, by node.

        What is returned for `node` may lack the command itself, which is then asked alone.
        """
        if not self._teacher:
            self._teacher = node
        if node == self._teacher:
            return self._learn(command)
        if node not in self._served:
            return self._teach(self._pupils() if self.together else [node])
        return self._note_miss(node, command)

    def replace_teacher(self, node: str) -> None:
        """Note that a node answers no more: if others learn from it, another one must teach."""
        if node == self._teacher and not self._served:
            self._teacher = ""

    def _learn(self, command: str) -> dict[str, list[str]]:
        self._list[command] = None
        return {node: [command] for node in self._served} if self._served and self.together else {}

    def _pupils(self) -> list[str]:
        return [node for node in self.nodes if node != self._teacher and node not in self._served]

    def _teach(self, nodes: Iterable[str]) -> dict[str, list[str]]:
        told = list(nodes)
        self._served.update(told)
        return {node: list(self._list) for node in told}

    def _note_miss(self, node: str, command: str) -> dict[str, list[str]]:
        first = self._once.setdefault(command, node)
        if first == node:
            return {}
        self._list[command] = None
        return {other: [command] for other in self._served} if self.together else {}
