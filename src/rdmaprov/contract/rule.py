"""What a rule is: an id, a sentence, a source, and a function that finds where it is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rdmaprov.inventory.model import Node
from rdmaprov.problem import Problem


@dataclass(frozen=True)
class Finding:
    """A place where a rule is broken.

    Args:
        variable: the variable that is wrong.
        message: what is wrong.
        remedy: what to write.
        path: the part of the variable.
        others: variables to blame in its place if the site does not write `variable` itself.

    """

    variable: str
    message: str
    remedy: str
    path: tuple[str | int, ...] = ()
    others: tuple[str, ...] = ()

    def problem(self, node: Node, rule: str) -> Problem:
        """Return the finding as a problem of a node, at the variable that the site wrote."""
        blamed = next(
            (name for name in (self.variable, *self.others) if name in node.written), self.variable
        )
        path = self.path if blamed == self.variable else ()
        at = node.locate(blamed, *path)
        return Problem(at, blamed, self.message, self.remedy, rule, (node.name,))


@dataclass(frozen=True)
class Rule:
    """A rule about one node.

    Args:
        id: theme and name, such as qos.pfc-one.
        sentence: what must hold.
        source: where that is known from.
        find: yields where a node breaks it; it finds nothing where a value is missing or wrong.

    """

    id: str
    sentence: str
    source: str
    find: Callable[[Node], Iterable[Finding]]

    def problems(self, nodes: Sequence[Node]) -> Iterator[Problem]:
        """Yield the problems of all nodes."""
        for node in nodes:
            for finding in self.find(node):
                yield finding.problem(node, self.id)


@dataclass(frozen=True)
class FleetRule:
    """A rule between nodes; `find` yields each finding with the node it is about."""

    id: str
    sentence: str
    source: str
    find: Callable[[Sequence[Node]], Iterable[tuple[Node, Finding]]]

    def problems(self, nodes: Sequence[Node]) -> Iterator[Problem]:
        """Yield the problems of the fleet."""
        for node, finding in self.find(nodes):
            yield finding.problem(node, self.id)


def is_roce(node: Node) -> bool:
    """Return whether the node's rails are RoCE."""
    return bool(node.get("fabric_kind") == "roce")
