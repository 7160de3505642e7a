"""Which paths are tested at once: on each rail, all nodes in disjoint pairs, both ways together."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from rdmaprov.isolation.meetings import Pair, pair_key, round_robin
from rdmaprov.perftest.model import HOST_MEMORY, End, PathTest

# Each port meets six others: one that is at fault fails with all six, and its partners fail once.
# A third of them under one leaf tells a leaf's uplinks from the leaf. Both are our choice: six
# rounds of some seconds are a minute at any size (docs/paths.md has the time of 512 nodes).
MATCHINGS, INSIDE_SHARE = 6, 1 / 3
# A greedy choice can leave two nodes over that have met already; another order seldom does.
_TRIES = 16


@dataclass(frozen=True)
class Matching:
    """Pairs of nodes that are tested at once."""

    # by the rail that both of a pair send on; no node is twice in those of a rail
    pairs: Mapping[int, tuple[Pair, ...]]
    # by how many places the receiver's rail is behind the sender's; 0 for paths that stay on their
    # rail
    shift: int = 0

    def tests(
        self,
        rails: Sequence[int],
        *,
        measures: str = "bandwidth",
        size: int = 1 << 20,
        memory: Mapping[tuple[str, int], str] | None = None,
    ) -> tuple[PathTest, ...]:
        """Return the tests, both directions of each pair.

        Args:
            rails: the numbers of all rails, in order.
            measures: `bandwidth` or `latency`.
            size: bytes of a message.
            memory: of ends, by node and rail; host memory by default.
        """
        kind = memory or {}
        found = []
        for number, rail in enumerate(rails):
            into = rails[(number + self.shift) % len(rails)]
            for pair in self.pairs.get(rail, ()):
                for sender, receiver in (pair, pair[::-1]):
                    ends = (
                        End(sender, rail, kind.get((sender, rail), HOST_MEMORY)),
                        End(receiver, into, kind.get((receiver, into), HOST_MEMORY)),
                    )
                    found.append(PathTest(*ends, measures, size))
        return tuple(found)


def few_matchings(
    nodes: Sequence[str], rails: Sequence[int], leaf_of: Mapping[str, str], count: int = MATCHINGS
) -> tuple[Matching, ...]:
    """Return matchings in which leaves mix; no pair is twice on a rail.

    The first ones are under leaves, as far as those have nodes, the others across. Each rail has
    pairs of its own, so that a node meets many others. With fewer nodes than that, or if all are
    under one leaf, all pairs in turn.

    Args:
        leaf_of: the leaf of each node; empty, or missing, where it is not known.
        count: how many, at most n - 1 (n if that is even).
    """
    of_rail = {rail: _Choice(nodes, leaf_of, f"0 {rail}").rounds(count) for rail in rails}
    many = max((len(rounds) for rounds in of_rail.values()), default=0)
    return tuple(
        Matching({rail: rounds[at] for rail, rounds in of_rail.items() if at < len(rounds)})
        for at in range(many)
    )


def all_matchings(nodes: Sequence[str], rails: Sequence[int]) -> Iterator[Matching]:
    """Yield matchings such that each pair is in one of them on each rail: n - 1, or n if odd."""
    orders = {rail: list(nodes) for rail in rails}
    for rail, order in orders.items():
        random.Random(f"0 {rail}").shuffle(order)  # noqa: S311 - no order of faults is met
    for rounds in zip(*(round_robin(order) for order in orders.values()), strict=True):
        yield Matching(dict(zip(orders, rounds, strict=True)))


def pairs_across(nodes: Sequence[str], leaf_of: Mapping[str, str], seed: str) -> list[Pair]:
    """Return disjoint pairs of some nodes, of different leaves as far as there are any."""
    return _Choice(nodes, leaf_of, seed).across(nodes)


@dataclass
class _Choice:
    """The choice of one rail's pairs."""

    nodes: Sequence[str]
    leaf_of: Mapping[str, str]
    seed: str
    met: set[Pair] = field(default_factory=set)
    between: Counter[Pair] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)  # noqa: S311 - to spread, not to hide

    def rounds(self, count: int) -> list[tuple[Pair, ...]]:
        """Return the pairs of each round."""
        leaves = self._leaves(self.nodes)
        if len(leaves) < 2 or len(self.nodes) <= count + 1:
            order = list(self.nodes)
            self.chance.shuffle(order)
            return list(islice(round_robin(order), count))
        inside = max(1, round(count * INSIDE_SHARE)) if max(map(len, leaves.values())) > 1 else 0
        turns = [round_robin(own) for own in leaves.values()]
        found = []
        for at in range(count):
            near = list(chain.from_iterable(next(t, ()) for t in turns)) if at < inside else []
            self.met.update(pair_key(*pair) for pair in near)
            taken = set(chain.from_iterable(near))
            rest = [node for node in self.nodes if node not in taken]
            found.append((*near, *self.across(rest)))
        return found

    def _leaves(self, nodes: Sequence[str]) -> dict[str, list[str]]:
        """Return nodes by their leaf, in an order by chance."""
        found: dict[str, list[str]] = {}
        for node in self.chance.sample(list(nodes), len(nodes)):
            found.setdefault(self.leaf_of.get(node, ""), []).append(node)
        return found

    def across(self, nodes: Sequence[str]) -> list[Pair]:
        """Return pairs of different leaves that have not met, as many as can be found."""
        best: list[Pair] = []
        for _ in range(_TRIES):
            pairs = self._try_across(self._leaves(nodes))
            best = max(best, pairs, key=len)
            if len(best) == len(nodes) // 2:
                break
        for one, other in best:
            self.met.add(pair_key(one, other))
            self.between[pair_key(self.leaf_of.get(one, ""), self.leaf_of.get(other, ""))] += 1
        return best

    def _try_across(self, leaves: dict[str, list[str]]) -> list[Pair]:
        """Return pairs: of the fullest leaf a node with one of the leaf that it met least."""
        pairs: list[Pair] = []
        while leaves:
            name = max(leaves, key=lambda each: len(leaves[each]))
            one = leaves[name].pop()
            other = self._partner(one, name, leaves)
            if other is not None:
                pairs.append((one, other))
            leaves = {each: own for each, own in leaves.items() if own}
        return pairs

    def _partner(self, one: str, name: str, leaves: dict[str, list[str]]) -> str | None:
        """Return a node that this one has not met, taken from its leaf; None if there is none."""
        rest = sum(map(len, leaves.values()))

        def order(leaf: str) -> tuple[bool, bool, int]:
            # A leaf with more than half of what is left must give one now, or keeps some over.
            return leaf == name, 2 * len(leaves[leaf]) <= rest, self.between[pair_key(name, leaf)]

        for leaf in sorted(leaves, key=order):
            for place, node in enumerate(leaves[leaf]):
                if pair_key(one, node) not in self.met:
                    return leaves[leaf].pop(place)
        return None
