"""Nodes that are slow at times: named by how often, where one result says nothing.

A pair that is slow once and then passes is no bad pair. But results of good nodes do not scatter
that far, so the slow ones are counted by node, and both ends are tested again, with others.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from rdmaprov.isolation.compare import upper_tail
from rdmaprov.isolation.meetings import Meetings, Pair, disjoint, pair_key
from rdmaprov.isolation.witnesses import WitnessSearch

# A fault that is there in a third of the time is missed twice or more of eight times with 83 %
# probability, beside what the search has seen of it before. A round takes seconds.
_MORE_ROUNDS = 8
# One slow test is of two nodes, and two may be one path; our choice.
_LEAST_SLOW, _LEAST_PARTNERS = 3, 2
# How many good nodes of a fleet may look as bad as one that is accused.
_MOST_CHANCE = 0.01
# Of more nodes than this that are slow at times, what they share is likelier than each of them.
_MOST_AT_ONCE = 2


@dataclass(frozen=True)
class Intermittent:
    """A node that is slow at times."""

    node: str
    slow: int
    tests: int
    partners: tuple[str, ...]


@dataclass
class IntermittentSearch:
    """Tests of nodes that were slow in some tests and passed in others.

    Args:
        apart: nodes that are at fault for what is known, whose tests say nothing of others.
        before: what other searches saw of the same nodes.
    """

    search: WitnessSearch
    apart: set[str]
    before: Sequence[Meetings] = ()
    _tests: Counter[str] = field(default_factory=Counter)
    _slow: dict[str, Counter[str]] = field(default_factory=dict)
    _all: int = 0
    _mixed: set[str] = field(default_factory=set)  # in a pair that was slow and passed

    def run(self) -> list[Intermittent]:
        """Return the nodes that are slow at times; test more while that is open."""
        self._count()
        for _ in range(_MORE_ROUNDS):
            found = self._accused()
            suspects = self._open(found)
            odd = any(node in self._mixed or len(self._slow[node]) > 1 for node in suspects)
            # One pair that is slow each time is a path.
            if not odd or not self._has_few_causes() or not self._test(suspects):
                break
            self._count()
        found = self._accused()
        return found if len(found) <= _MOST_AT_ONCE else []

    def _count(self) -> None:
        """Count the tests, and the slow ones, of each node and its partners."""
        self._tests, self._slow, self._all, self._mixed = Counter(), {}, 0, set()
        for meetings in (*self.before, self.search.meetings):
            for pair, slow, count in meetings.tests():
                if not self.apart.isdisjoint(pair):
                    continue
                self._all += count
                self._mixed.update(pair if 0 < slow < count else ())
                for one, other in (pair, pair[::-1]):
                    self._tests[one] += count
                    if slow:
                        self._slow.setdefault(one, Counter())[other] += slow

    def _has_few_causes(self) -> bool:
        """Return whether a node or two explain all slow tests: else flows or paths do."""
        ends = (pair_key(one, other) for one, others in self._slow.items() for other in others)
        left = list(dict.fromkeys(ends))
        for _ in range(_MOST_AT_ONCE):
            count = Counter(node for pair in left for node in pair)
            left = [pair for pair in left if count and count.most_common(1)[0][0] not in pair]
        return not left

    def _open(self, found: Sequence[Intermittent]) -> list[str]:
        """Return the nodes with slow tests that no accused node explains."""
        known = {each.node for each in found}
        return [
            node
            for node, others in self._slow.items()
            if node not in known and not known.issuperset(others)
        ]

    def _test(self, suspects: Sequence[str]) -> bool:
        """Test suspects with nodes that were never slow; return whether there is one.

        Those that they met least come first.
        """
        search, used = self.search, set(self.apart)
        clean = [node for node in search.things if node not in self._slow]
        asked: list[Pair] = []
        for node in suspects:
            others = [it for it in clean if it not in used and search.may_meet(node, it)]
            if others and node not in used:
                other = min(others, key=partial(search.meetings.count, node))
                asked += disjoint([(node, other)], used)
        if asked:
            search.meetings.add(search.measure([*asked, *search.fill(used)]))
        return bool(asked)

    def _accused(self) -> list[Intermittent]:
        """Return the nodes that are slow more often than chance makes a good one."""
        return [found for node in self._slow if (found := self._judge(node))]

    def _judge(self, node: str) -> Intermittent | None:
        partners = [it for it in self._slow[node] if self._slow[it].keys() == {node}]
        slow, tests = sum(self._slow[node][it] for it in partners), self._tests[node]
        # Two that are slow each time, and no others, are paths.
        least = _LEAST_PARTNERS if node in self._mixed else _LEAST_PARTNERS + 1
        if slow < _LEAST_SLOW or len(partners) < least:
            return None
        return Intermittent(node, slow, tests, tuple(partners)) if self._is_rare(node) else None

    def _is_rare(self, node: str) -> bool:
        """Return whether hardly any good node is slow as often; the rule of succession."""
        slow, tests = self._slow[node].total(), self._tests[node]
        others = sum(count.total() for count in self._slow.values()) // 2 - slow
        usual = (others + 1) / (self._all - tests + 2)
        return len(self._tests) * upper_tail(slow, tests, usual) < _MOST_CHANCE
