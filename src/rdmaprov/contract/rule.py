"""A rule: an id, a sentence, a source, and a function that finds violations."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rdmaprov.inventory.model import Fleet, Node
from rdmaprov.problem import Problem


@dataclass(frozen=True)
class Violation:
    """A place where a site violates a rule."""

    variable: str
    message: str
    remedy: str
    path: tuple[str | int, ...] = ()  # the keys and indexes from the variable to the wrong part
    # variables to name instead if the site does not set `variable` itself
    others: tuple[str, ...] = ()

    def problem(self, node: Node, rule: str) -> Problem:
        """Return the violation as a problem of a node, at a variable that the site sets."""
        blamed = next(
            (name for name in (self.variable, *self.others) if name in node.written), self.variable
        )
        path = self.path if blamed == self.variable else ()
        at = node.locate(blamed, *path)
        return Problem(at, blamed, self.message, self.remedy, rule, (node.name,))


@dataclass(frozen=True)
class Rule:
    """A rule about one node."""

    id: str  # theme and name, such as qos.pfc-one
    sentence: str
    source: str  # the standard, document or source code that the sentence rests on
    # yields a node's violations; none where a value is missing or invalid
    find: Callable[[Node], Iterable[Violation]]

    def problems(self, fleet: Fleet) -> Iterator[Problem]:
        """Yield the problems of all nodes."""
        for node in fleet.nodes:
            for violation in self.find(node):
                yield violation.problem(node, self.id)


@dataclass(frozen=True)
class FleetRule:
    """A rule between nodes; `find` yields each violation with the node it is about."""

    id: str
    sentence: str
    source: str
    find: Callable[[Sequence[Node]], Iterable[tuple[Node, Violation]]]

    def problems(self, fleet: Fleet) -> Iterator[Problem]:
        """Yield the problems of the fleet."""
        for node, violation in self.find(fleet.nodes):
            yield violation.problem(node, self.id)


@dataclass(frozen=True)
class SiteRule:
    """A rule between nodes and other hosts of the inventory; `find` is as of a FleetRule."""

    id: str
    sentence: str
    source: str
    find: Callable[[Fleet], Iterable[tuple[Node, Violation]]]

    def problems(self, fleet: Fleet) -> Iterator[Problem]:
        """Yield the problems of the site."""
        for node, violation in self.find(fleet):
            yield violation.problem(node, self.id)


def is_roce(node: Node) -> bool:
    """Return whether the node's rails are RoCE."""
    return bool(node.get("fabric_kind") == "roce")
