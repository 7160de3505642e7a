"""How a fault is searched for: halves side by side, then swaps with witnesses.

A search is a generator. It yields tests that may run side by side and is sent their answers, in
the same order; so several searches run together as one (`together`), and none knows of rounds.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

# Nodes that are tested together or not at all: one node, or all of a leaf.
Item = tuple[str, ...]
_T = TypeVar("_T")


class Pool:
    """Items that passed a test, so that they can be witnesses for others.

    Args:
        reserve: taken from when there is nothing here.

    """

    def __init__(self, reserve: Pool | None = None) -> None:
        self._items: dict[Item, None] = {}
        self._reserve = reserve

    def add(self, items: Iterable[Item]) -> None:
        """Add items that passed."""
        self._items.update(dict.fromkeys(items))

    def __contains__(self, item: object) -> bool:
        """Return whether an item passed."""
        return item in self._items

    def witnesses(self, avoid: frozenset[str] = frozenset()) -> Iterator[Item]:
        """Yield the items without any of these nodes, those of the reserve last."""
        yield from (item for item in self._items if avoid.isdisjoint(item))
        if self._reserve:
            yield from self._reserve.witnesses(avoid.union(*self._items))

    def has(self, avoid: frozenset[str] = frozenset()) -> bool:
        """Return whether there is a witness without any of these nodes."""
        return next(self.witnesses(avoid), None) is not None


@dataclass(frozen=True)
class GroupTest:
    """A test that a search wants.

    Args:
        nodes: what is tested.
        pool: where a witness is added from; None: none is.
        avoid: nodes that must not be witnesses.
        rails: the rails that are used; empty: all.

    """

    nodes: Item
    pool: Pool | None = None
    avoid: frozenset[str] = frozenset()
    rails: tuple[int, ...] = ()


@dataclass(frozen=True)
class GroupResult:
    """The result of a test: whether it is bad, whether it hung, and its witness."""

    bad: bool
    hang: bool = False
    witness: Item = ()


Search = Generator[list[GroupTest], list[GroupResult], None]
# Parts that were tested, each with its answer.
TestedParts = list[tuple[Sequence[Item], GroupResult]]


@dataclass(frozen=True)
class FaultyPart:
    """A part that is at fault.

    Args:
        kind: node, rail, pair or leaf.
        nodes: the node, the two of a pair, or all of the leaf.
        confidence: high, or low where the tests fit something else as well.
        why: what was seen.
        name: the leaf's name, or two leaves' names; empty otherwise.
        rail: the rail; None unless the kind is rail.
        hang: whether a test with it hung.

    """

    kind: str
    nodes: Item
    confidence: str
    why: str
    name: str = ""
    rail: int | None = None
    hang: bool = False


@dataclass
class Evidence:
    """What searches have found so far.

    Args:
        rails: rails of each node.
        leaves: items that are a leaf, with its name.
        faulty_parts: who was accused.
        unsure: nodes that are neither cleared nor accused.
        stuck: items that could not be tested for lack of a witness.
        met: the results of tests of two items together.
        good: nodes that passed in some group.

    """

    rails: int = 1
    leaves: dict[Item, str] = field(default_factory=dict)
    faulty_parts: list[FaultyPart] = field(default_factory=list)
    unsure: dict[str, None] = field(default_factory=dict)
    stuck: list[Item] = field(default_factory=list)
    met: dict[frozenset[Item], GroupResult] = field(default_factory=dict)
    good: set[str] = field(default_factory=set)

    def accuse(self, part: FaultyPart) -> None:
        """Note a part, once."""
        if all((part.kind, part.nodes) != (it.kind, it.nodes) for it in self.faulty_parts):
            self.faulty_parts.append(part)

    def mark_unsure(self, items: Iterable[Item]) -> None:
        """Note nodes that are neither cleared nor accused."""
        self.unsure.update(dict.fromkeys(node for item in items for node in item))

    def accused_nodes(self) -> set[str]:
        """Return the nodes of all faulty_parts."""
        return {node for part in self.faulty_parts for node in part.nodes}


def nodes_of(items: Iterable[Item]) -> Item:
    """Return the nodes of several items."""
    return tuple(node for item in items for node in item)


def halves(things: Sequence[_T]) -> tuple[Sequence[_T], Sequence[_T]]:
    """Return the first half, the larger one, and the rest."""
    middle = (len(things) + 1) // 2
    return things[:middle], things[middle:]


def run_together(searches: Sequence[Search]) -> Search:
    """Run searches side by side: each step yields the tests of all of them."""
    asked: dict[int, list[GroupTest]] = {}
    for index, search in enumerate(searches):
        _advance(asked, index, search, None)
    while asked:
        order = list(asked)
        answers = yield [ask for index in order for ask in asked[index]]
        start = 0
        for index in order:
            end = start + len(asked[index])
            _advance(asked, index, searches[index], answers[start:end])
            start = end


def _advance(
    asked: dict[int, list[GroupTest]], index: int, search: Search, answers: list[GroupResult] | None
) -> None:
    """Note the tests that a search wants next, or that it has ended."""
    try:
        asked[index] = next(search) if answers is None else search.send(answers)
    except StopIteration:
        asked.pop(index, None)
