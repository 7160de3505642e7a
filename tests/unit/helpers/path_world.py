"""A fabric by what its parts carry, whose paths are tested."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rdmaprov.isolation.model import FaultyPart
from rdmaprov.perftest.locate import PathSearch
from rdmaprov.perftest.matchings import Matching, few_matchings
from rdmaprov.perftest.matrix import PathKey, PathMatrix, path_of
from rdmaprov.perftest.model import PathResult, PathTest

RAILS = (0, 1, 2, 3)
LINE = 50.0


@dataclass
class World:
    """A fabric by what its parts carry, as shares of a line; 0 is an error, text is that error.

    Args:
        sends, receives: by node and rail.
        paths: by both ends and rail, each direction.
        blocks: by leaf, leaf and rail, each direction; `*` is any other leaf.
        rails: by rail.
        duty: the share of rounds in which any of it shows.
    """

    count: int = 16
    per_leaf: int = 4
    sends: Mapping[tuple[str, int], float | str] = field(default_factory=dict)
    receives: Mapping[tuple[str, int], float | str] = field(default_factory=dict)
    paths: Mapping[tuple[str, str, int], float | str] = field(default_factory=dict)
    blocks: Mapping[tuple[str, str, int], float] = field(default_factory=dict)
    rails: Mapping[int, float] = field(default_factory=dict)
    shown: Sequence[bool] = ()
    noise: float = 0.01
    whole: float = 1.0

    def __post_init__(self) -> None:
        self.chance = random.Random(1)
        self.nodes = [f"n{number:02d}" for number in range(self.count)]
        self.leaf_of = {n: f"l{number // self.per_leaf}" for number, n in enumerate(self.nodes)}
        self.rounds: list[Sequence[PathTest]] = []

    def measure(self, tests: Sequence[PathTest]) -> Mapping[PathTest, PathResult]:
        for ends in ([test.sender for test in tests], [test.receiver for test in tests]):
            assert len(set(ends)) == len(ends), "a port is in two tests"
        at = len(self.rounds)
        self.rounds.append(tests)
        shows = not self.shown or self.shown[at % len(self.shown)]
        return {test: self._result(test, shows) for test in tests}

    def _result(self, test: PathTest, shows: bool) -> PathResult:
        path = path_of(test)
        up, down = self.leaf_of[path.sender], self.leaf_of[path.receiver]
        shares = [
            self.sends.get((path.sender, path.rail), 1.0),
            self.receives.get((path.receiver, path.into), 1.0),
            self.paths.get((path.sender, path.receiver, path.rail), 1.0),
            self.rails.get(path.rail, 1.0),
        ]
        shares += [
            self.blocks.get(each, 1.0)
            for each in (
                (up, down, path.rail),
                *(((up, "*", path.rail), ("*", down, path.rail)) if up != down else ()),
            )
        ]
        words = [share for share in shares if isinstance(share, str)]
        if words and shows:
            return PathResult(test, error=words[0])
        least = min(share for share in shares if not isinstance(share, str)) if shows else 1.0
        noise = 1 - abs(self.chance.gauss(0, self.noise))
        return PathResult(test, self.whole * LINE * least * noise)

    def solve(self) -> tuple[FaultyPart, ...]:
        def ceiling(_path: PathKey) -> float:
            return LINE

        self.matrix = PathMatrix(self.leaf_of, ceiling)
        search = PathSearch(self.nodes, RAILS, self, self.matrix, tests_of)
        return search.run(few_matchings(self.nodes, RAILS, self.leaf_of))


def tests_of(matching: Matching) -> Sequence[PathTest]:
    return matching.tests(RAILS)


def both(node, rail, share) -> dict[str, Any]:
    return {"sends": {(node, rail): share}, "receives": {(node, rail): share}}


def only(parts):
    [part] = parts
    return part.kind, part.nodes, part.rail, part.proven
