"""Where a fault of paths is: measured in matchings, and tested again with partners that were good.

A fault is located in three steps of measuring at any number of nodes: the matchings, and two rounds
in which what they show is tested again. What is seen in all three is sure.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rdmaprov.isolation.meetings import Pair, disjoint, pair_key
from rdmaprov.isolation.model import FaultyPart
from rdmaprov.perftest.matchings import Matching, pairs_across
from rdmaprov.perftest.matrix import ACROSS, PathMatrix, kind_of
from rdmaprov.perftest.model import PathMeasurer, PathTest
from rdmaprov.perftest.ports import odd_pairs, port_suspects
from rdmaprov.perftest.suspects import (
    Evidence,
    Suspect,
    leaf_pair_suspects,
    leaf_suspects,
    plane_suspects,
)
from rdmaprov.perftest.verdicts import fabric_parts, faulty_part, merge_rails

_OF_PORTS = ("node", "rail", "pair")


def retest_matching(
    nodes: Sequence[str],
    rails: Sequence[int],
    matrix: PathMatrix,
    suspects: Sequence[Suspect],
    turn: int,
) -> Matching:
    """Return a matching in which suspected ports meet good ones that they have not met.

    The two ends of a suspected path meet each other again: they have met others, and a fault of
    one end that comes and goes seldom shows three times in a row. All other nodes meet as well,
    because what shares a switch must be as busy as before.

    Args:
        turn: 0 for the first retest.
    """
    met: dict[int, set[Pair]] = defaultdict(set)
    bad: dict[int, set[str]] = defaultdict(set)
    for path in matrix.samples:
        met[path.rail].add(pair_key(path.sender, path.receiver))
    for suspect in suspects:
        for rail in rails if suspect.rail is None else (suspect.rail,):
            bad[rail].update(suspect.nodes if suspect.kind in _OF_PORTS else ())
    pairs = {}
    for rail in rails:
        own = [each for each in suspects if each.rail in (rail, None)]
        chance = random.Random(f"0 {turn} {rail}")  # noqa: S311 - a choice of partners
        order = chance.sample(list(nodes), len(nodes))
        asked = _Partners(matrix, [n for n in order if n not in bad[rail]], met[rail])
        used: set[str] = set()
        again = [(s.nodes[0], s.nodes[1]) for s in own if s.kind == "pair"]
        taken = disjoint(again, used)
        for suspect in own:
            taken += disjoint(asked.partners(suspect, used), used)
        rest = [node for node in order if node not in used]
        taken += pairs_across(rest, matrix.leaf_of, f"0 {turn} {rail}")
        pairs[rail] = tuple(taken)
    return Matching(pairs)


class _Partners:
    """Partners for what is suspected on a rail."""

    def __init__(self, matrix: PathMatrix, good: Sequence[str], met: set[Pair]) -> None:
        self.leaf_of, self.good, self.met = matrix.leaf_of, good, met

    def partners(self, suspect: Suspect, used: set[str]) -> Iterator[tuple[str, str]]:
        """Yield a pair for each node of a suspected port or path; `used` grows meanwhile."""
        for node in suspect.nodes if suspect.kind in _OF_PORTS else ():
            if node not in used:
                free = [other for other in self.good if other not in used and other != node]
                best = min(free, key=lambda other: self._order(node, other, suspect), default=None)
                if best is not None:
                    yield node, best

    def _order(self, node: str, other: str, suspect: Suspect) -> tuple[bool, bool]:
        kind = kind_of(self.leaf_of, node, other)
        return pair_key(node, other) in self.met, kind != (suspect.seen or ACROSS)


RETESTS = 2
# Of more pairs than this that fail without a port in common, a cause for each is not likely.
MOST_PAIRS = 3
# If more paths than this are bad, testing some of them again says nothing of the rest.
_MOST_SHARE = 0.05


@dataclass
class PathSearch:
    """A search for what is at fault, by tests of paths."""

    nodes: Sequence[str]
    rails: Sequence[int]
    measurer: PathMeasurer
    matrix: PathMatrix  # what is known; it grows
    make_tests: Callable[[Matching], Sequence[PathTest]]  # returns the tests of a matching

    def run(self, matchings: Sequence[Matching]) -> tuple[FaultyPart, ...]:
        """Measure matchings, test what they show again, and return what is at fault."""
        for matching in matchings:
            self._measure(matching)
        first = self.matrix.rounds
        for turn in range(RETESTS):
            suspects = explain(self.matrix)
            if not self._is_worth(suspects):
                break
            self._measure(retest_matching(self.nodes, self.rails, self.matrix, suspects, turn))
        return self.parts(first)

    def parts(self, after: int) -> tuple[FaultyPart, ...]:
        """Return what is at fault; it is sure where rounds after a number show it again."""
        suspects = explain(self.matrix)
        pairs = [each for each in suspects if each.kind == "pair"]
        if len({each.nodes for each in pairs}) > MOST_PAIRS:
            crowd = _collisions(pairs)
            suspects = [each for each in suspects if each.kind != "pair"]
            if len(crowd.paths) > _MOST_SHARE * len(self.matrix.samples):
                # Flows that collide slow anything; only what carries nothing stands out.
                suspects = [each for each in suspects if self._is_dead(each)]
            suspects.append(crowd)
        named = [faulty_part(self.matrix, each, after) for each in suspects]
        whole = fabric_parts(self.matrix, self.nodes)
        return (*whole, *merge_rails(named, self.rails))

    def _is_dead(self, suspect: Suspect) -> bool:
        return all(self.matrix.value(path) == 0 for path in suspect.paths)

    def _is_worth(self, suspects: Sequence[Suspect]) -> bool:
        if not suspects:
            return False
        pairs = sum(len(each.paths) for each in suspects if each.kind == "pair")
        return pairs <= max(2 * MOST_PAIRS, _MOST_SHARE * len(self.matrix.samples))

    def _measure(self, matching: Matching) -> None:
        tests = self.make_tests(matching)
        if tests:
            self.matrix.add(self.measurer.measure(tests))


def explain(matrix: PathMatrix) -> list[Suspect]:
    """Return what would explain the bad paths of a matrix, the broadest parts first."""
    evidence = Evidence(matrix)
    found = plane_suspects(evidence)
    found += leaf_suspects(evidence)
    found += leaf_pair_suspects(evidence)
    found += port_suspects(evidence)
    return found + odd_pairs(evidence)


def _collisions(pairs: Sequence[Suspect]) -> Suspect:
    nodes = tuple(dict.fromkeys(node for pair in pairs for node in pair.nodes))
    paths = tuple(path for pair in pairs for path in pair.paths)
    return Suspect("fleet", nodes, None, paths, seen="no port and no leaf in common")


def good_share(matrix: PathMatrix) -> Mapping[str, int]:
    """Return how many paths are good, bad, and unknown, for a line of a report."""
    bad = sum(matrix.is_bad(path) for path in matrix.samples)
    unknown = len(matrix.unknown.keys() - matrix.samples.keys())
    return {"good": len(matrix.samples) - bad, "bad": bad, "unknown": unknown}
