"""What is at fault when the gate fails: group testing, round by round, without any input or output.

`plan()` gives an `Isolation`. Its `next_round()` says which groups are to be tested side by side,
`observe()` takes their outcomes, and when no round is left `verdict()` names the faulty_parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from rdmaprov.isolation.model import (
    Evidence,
    FaultyPart,
    GroupResult,
    GroupTest,
    Item,
    Pool,
    Search,
    run_together,
)
from rdmaprov.isolation.searches import search_items, search_pairs

# Each pass accuses a node or is the last one; a fleet with more faults than this needs a person.
_MAX_PASSES = 32


class GroupOutcome(StrEnum):
    """The outcome of the test of a group."""

    GOOD = "good"
    BAD = "bad"
    HANG = "hang"  # it did not end in time, or crashed: bad as well


@dataclass(frozen=True)
class Group:
    """Nodes that run one all-reduce together; `rails` is empty for all rails."""

    nodes: Item
    rails: tuple[int, ...] = ()


@dataclass(frozen=True)
class Estimate:
    """What an isolation costs at most: rounds for one bad node, for one bad pair, and seconds."""

    node_rounds: int
    pair_rounds: int
    seconds: float

    def __str__(self) -> str:
        """Return it as a sentence."""
        return (
            f"at most {self.node_rounds} rounds ({self.seconds:.0f} s) for one bad node, "
            f"{self.pair_rounds} rounds for one bad node pair"
        )


@dataclass(frozen=True)
class IsolationResult:
    """What an isolation found.

    Args:
        faulty_parts: the parts at fault.
        unsure: nodes that are not cleared: no group with them passed.
        rounds: rounds that it took.

    """

    faulty_parts: tuple[FaultyPart, ...]
    unsure: tuple[str, ...]
    rounds: int


@dataclass
class _ScheduledTest:
    """A test of the search, and its outcomes so far."""

    ask: GroupTest
    group: Group | None = None
    witness: Item = ()
    outcomes: list[GroupOutcome] = field(default_factory=list)

    def answer(self, repeats: int) -> GroupResult | None:
        """Return the outcome of most repeats, None while that is open."""
        good = self.outcomes.count(GroupOutcome.GOOD)
        bad = len(self.outcomes) - good
        if max(good, bad) * 2 <= repeats:
            return None
        return GroupResult(
            bad > good, bad > good and GroupOutcome.HANG in self.outcomes, self.witness
        )


class Isolation:
    """A search for what is at fault in a fleet whose gate has failed; made by `plan()`."""

    def __init__(
        self, nodes: Item, leaves: dict[Item, str], evidence: Evidence, repeats: int
    ) -> None:
        self._nodes = nodes
        self._evidence = evidence
        self._repeats = repeats
        self._leaves = leaves
        self._passed: set[frozenset[str]] = set()
        self._rounds = 0
        self._round: list[_ScheduledTest] = []
        self._tests: list[_ScheduledTest] = []
        self._search = self._investigate()
        self._advance(None)

    def estimate(self, seconds_per_round: float) -> Estimate:
        """Return what the search costs at most if one node, or one pair, is bad."""
        halvings = math.ceil(math.log2(len(self._nodes)))
        largest = max((len(leaf) for leaf in self._leaves), default=1)
        inside = 1 + math.ceil(math.log2(largest)) if self._leaves else halvings
        rails = 2 + math.ceil(math.log2(self._evidence.rails)) if self._evidence.rails > 1 else 0
        node = (inside + 2 + rails) * self._repeats
        return Estimate(node, (2 * halvings + 4) * self._repeats, node * seconds_per_round)

    def next_round(self) -> tuple[Group, ...]:
        """Return the groups to test now, side by side; none when the search has ended.

        Groups have two nodes or more, and no node in common.
        """
        if not self._round:
            used: set[str] = set()
            for test in self._tests:
                if test.answer(self._repeats) is None and self._place(test, used):
                    self._round.append(test)
        return tuple(test.group for test in self._round if test.group)

    def observe(self, outcomes: Mapping[Group, GroupOutcome]) -> None:
        """Take the outcomes of the groups of the round.

        Raises:
            KeyError: a group of the round has no outcome.

        """
        for test in self._round:
            if test.group:
                test.outcomes.append(GroupOutcome(outcomes[test.group]))
        self._round = []
        self._rounds += 1
        answers = [test.answer(self._repeats) for test in self._tests]
        known = [answer for answer in answers if answer is not None]
        if len(known) == len(answers):
            for test, answer in zip(self._tests, known, strict=True):
                if test.group and not answer.bad and not test.group.rails:
                    self._passed.add(frozenset(test.group.nodes))
                    self._evidence.good.update(test.group.nodes)
            self._advance(known)

    def verdict(self) -> IsolationResult:
        """Return what has been found so far; all of it when no round is left."""
        accused = self._evidence.accused_nodes()
        unsure = tuple(node for node in self._evidence.unsure if node not in accused)
        return IsolationResult(tuple(self._evidence.faulty_parts), unsure, self._rounds)

    def _advance(self, answers: list[GroupResult] | None) -> None:
        """Send results to the search, and take the tests that it wants next."""
        try:
            asks = next(self._search) if answers is None else self._search.send(answers)
        except StopIteration:
            asks = []
        self._tests = [_ScheduledTest(ask) for ask in asks]

    def _place(self, test: _ScheduledTest, used: set[str]) -> bool:
        """Return whether a test fits into the round; give it a witness if it wants one."""
        if test.group is None and used.isdisjoint(test.ask.nodes):
            witness: Item | None = ()
            if test.ask.pool is not None:
                avoid = test.ask.avoid.union(used, test.ask.nodes)
                witness = next(test.ask.pool.witnesses(avoid), None)
            if witness is not None:
                test.witness = witness
                test.group = Group(test.ask.nodes + witness, test.ask.rails)
        if test.group is None or not used.isdisjoint(test.group.nodes):
            return False
        used.update(test.group.nodes)
        return True

    def _investigate(self) -> Search:
        """Search until what is left passes as a whole, or nothing more is found."""
        pool = Pool()
        yield from self._search_first(pool)
        for _ in range(_MAX_PASSES):
            gone = self._evidence.accused_nodes().union(self._evidence.unsure)
            rest = tuple(node for node in self._nodes if node not in gone)
            if len(rest) < 2 or frozenset(rest) in self._passed:
                return
            if gone or not self._leaves:  # else it is what the gate has just seen
                [answer] = yield [GroupTest(rest)]
                if not answer.bad:
                    return
            before = len(self._evidence.faulty_parts)
            yield from self._search_across(rest, before)
            if len(self._evidence.faulty_parts) == before:
                return

    def _search_first(self, pool: Pool) -> Search:
        """Search inside of each leaf, side by side; without leaves, everywhere."""
        inside = [leaf for leaf in self._leaves if len(leaf) > 1]
        if not inside:
            yield from search_items([(node,) for node in self._nodes], pool, self._evidence)
        else:
            yield from self._search_inside(inside, pool)
        alone = [leaf for leaf in self._leaves if len(leaf) == 1]
        if self._evidence.stuck and inside and not pool.has():
            self._evidence.stuck += alone
        yield from self._search_stuck(pool)

    def _search_inside(self, leaves: Sequence[Item], pool: Pool) -> Search:
        """Test leaves, each in itself, and search in those that are bad."""
        answers = yield [GroupTest(leaf) for leaf in leaves]
        hunts, pools = [], []
        for leaf, answer in zip(leaves, answers, strict=True):
            nodes = [(node,) for node in leaf]
            if answer.bad:
                pools.append(Pool(reserve=pool))
                hunts.append(search_items(nodes, pools[-1], self._evidence))
            else:
                pool.add(nodes)
        yield from run_together(hunts)
        for own in pools:
            pool.add(own.witnesses())

    def _search_stuck(self, pool: Pool) -> Search:
        """Search the items that had no witness."""
        stuck, self._evidence.stuck = self._evidence.stuck, []
        if stuck:
            yield from search_pairs(stuck, pool, self._evidence)

    def _search_across(self, rest: Item, before: int) -> Search:
        """Search for a fault between parts that are good alone: leaves first, then nodes."""
        left = set(rest)
        inside = {
            tuple(node for node in leaf if node in left): name
            for leaf, name in self._leaves.items()
        }
        inside.pop((), None)
        self._evidence.leaves = inside
        changed = [leaf for leaf in inside if len(leaf) > 1 and frozenset(leaf) not in self._passed]
        if changed:  # a node of it was accused: is the rest good?
            pool = Pool()
            yield from self._search_inside(changed, pool)
            yield from self._search_stuck(pool)
        if len(inside) > 1 and len(self._evidence.faulty_parts) == before:
            yield from self._search_all(list(inside))
        if len(self._evidence.faulty_parts) == before:
            yield from self._search_all([(node,) for node in rest])

    def _search_all(self, items: Sequence[Item]) -> Search:
        """Hunt in items that are bad all together, of which none has a witness yet."""
        pool = Pool()
        yield from search_items(items, pool, self._evidence)
        yield from self._search_stuck(pool)


def plan(
    nodes: Iterable[str],
    leaves: Mapping[str, Iterable[str]] | None = None,
    *,
    rails: int = 1,
    repeats: int = 1,
) -> Isolation:
    """Return the search for what is at fault in nodes whose all-reduce was bad.

    `rdmaprov accept` passes neither `leaves` nor `repeats` yet; see acceptance/isolate.py.

    Args:
        nodes: names, in the site's order.
        leaves: the nodes of each leaf switch, if known; others are a leaf of their own.
        rails: rails of each node; with more than one, a bad node is tested rail by rail.
        repeats: how often each group is tested, an odd number; the majority counts.

    Raises:
        ValueError: fewer than two nodes, a node that is given twice, or an even number of repeats.

    """
    names = tuple(nodes)
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError("an isolation needs two nodes or more, each once")
    if repeats < 1 or repeats % 2 == 0:
        raise ValueError(f"{repeats} repeats have no majority; use an odd number")
    known = _group_by_leaf(names, leaves or {})
    evidence = Evidence(rails=rails, leaves=known)
    return Isolation(names, known, evidence, repeats)


def _group_by_leaf(names: Item, leaves: Mapping[str, Iterable[str]]) -> dict[Item, str]:
    """Return each leaf's nodes with its name; none if there are fewer than two leaves."""
    owner = {node: leaf for leaf, members in leaves.items() for node in members}
    members: dict[str, list[str]] = {}
    for name in names:
        members.setdefault(owner.get(name, name), []).append(name)
    if not leaves or len(members) < 2:
        return {}
    return {tuple(nodes): leaf for leaf, nodes in members.items()}
