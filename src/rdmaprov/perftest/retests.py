"""The next round of tests: what is suspected, with partners that were good, and all others too."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

from rdmaprov.isolation.meetings import Pair, disjoint, pair_key
from rdmaprov.perftest.matchings import Matching, pairs_across
from rdmaprov.perftest.matrix import ACROSS, PathMatrix, kind_of
from rdmaprov.perftest.suspects import Suspect

_OF_PORTS = ("node", "rail", "pair")


def retest_matching(
    nodes: Sequence[str],
    rails: Sequence[int],
    matrix: PathMatrix,
    suspects: Sequence[Suspect],
    turn: int,
    seed: int = 0,
) -> Matching:
    """Return a matching in which suspected ports meet good ones that they have not met.

    The two ends of a suspected path meet each other again: they have met others, and a fault of
    one end that comes and goes seldom shows three times in a row. All other nodes meet as well,
    because what shares a switch must be as busy as before.

    Args:
        nodes: names.
        rails: their numbers.
        matrix: what is known.
        suspects: what is suspected.
        turn: 0 for the first retest.
        seed: of the choice of partners.

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
        chance = random.Random(f"{seed} {turn} {rail}")  # noqa: S311 - a choice of partners
        order = chance.sample(list(nodes), len(nodes))
        asked = _Partners(matrix, [n for n in order if n not in bad[rail]], met[rail])
        used: set[str] = set()
        again = [(s.nodes[0], s.nodes[1]) for s in own if s.kind == "pair"]
        taken = disjoint(again, used)
        for suspect in own:
            taken += disjoint(asked.partners(suspect, used), used)
        rest = [node for node in order if node not in used]
        taken += pairs_across(rest, matrix.leaf_of, f"{seed} {turn} {rail}")
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
