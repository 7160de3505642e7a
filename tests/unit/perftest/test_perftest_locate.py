"""Tests of single paths name what is at fault, of a port or the fabric, and never a victim."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from rdmaprov.isolation.model import FaultyPart
from rdmaprov.perftest.locate import RETESTS, PathSearch, good_share
from rdmaprov.perftest.matchings import MATCHINGS, Matching, few_matchings
from rdmaprov.perftest.matrix import PathKey, PathMatrix, path_of
from rdmaprov.perftest.model import PathResult, PathTest

RAILS = (0, 1, 2, 3)
LINE = 50.0


@dataclass
class World:
    """A fabric by shares of a line that parts carry, in `duty` of the rounds; 0 or text fails."""

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
        search = PathSearch(self.nodes, RAILS, self, self.matrix, each_test_of)
        return search.run(few_matchings(self.nodes, RAILS, self.leaf_of))


def each_test_of(matching: Matching) -> Sequence[PathTest]:
    return matching.tests(RAILS)


def both(node, rail, share) -> dict[str, Any]:
    return {"sends": {(node, rail): share}, "receives": {(node, rail): share}}


def on_rails(node, rails, share) -> dict[str, Any]:
    slow = {(node, rail): share for rail in rails}
    return {"sends": slow, "receives": slow}


def only(parts):
    [part] = parts
    return part.kind, part.nodes, part.rail, part.proven


# --- one port ----------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.9, 0.5, 0.02])
@pytest.mark.parametrize("count", [4, 5, 16])
def test_a_slow_port_is_named_and_nobody_else(count, share):
    assert only(World(count, **both("n02", 3, share)).solve()) == ("rail", ("n02",), 3, True)


@pytest.mark.parametrize(
    ("slow", "named", "why"),
    [
        ({"sends": {("n05", 1): 0.5}}, ("rail", ("n05",), 1, True), "it sends 5"),
        ({"receives": {("n05", 1): 0.5}}, ("rail", ("n05",), 1, True), "it receives 5"),
        (
            {"sends": {("n07", rail): 0.945 for rail in RAILS}},
            ("node", ("n07",), None, True),
            "it sends 94 %",
        ),
        (on_rails("n03", RAILS, 0.4), ("node", ("n03",), None, True), ""),
        (on_rails("n03", (1, 2), 0.5), ("node", ("n03",), None, True), "rails 1, 2: "),
    ],
    ids=["one way", "the other way", "a little, seen by many paths", "all rails", "half of them"],
)
def test_a_port_or_a_node_is_one_finding_and_no_partner_is_accused(slow, named, why):
    parts = World(**slow).solve()
    assert only(parts) == named
    assert why in parts[0].why


@pytest.mark.parametrize("error", ["completion", "timeout", "no-path", "no-server"])
def test_a_port_that_carries_nothing_is_named_with_the_error(error):
    [part] = World(**both("n05", 1, error)).solve()
    assert (part.kind, part.nodes, part.rail, part.proven) == ("rail", ("n05",), 1, True)
    assert error in part.why
    assert part.hang == (error == "timeout")


def test_two_ports_at_fault_are_both_named_although_they_met():
    sends = {("n01", 0): 0.5, ("n02", 0): 0.4}
    parts = World(8, sends=sends, receives=sends).solve()
    assert {(part.kind, part.nodes, part.proven) for part in parts} == {
        ("rail", ("n01",), True),
        ("rail", ("n02",), True),
    }


# --- nodes, rails, leaves ----------------------------------------------------------------------


def test_a_port_that_is_slow_now_and_then_is_named_and_not_sure():
    world = World(**both("n09", 0, 0.5), shown=(False, True, False, False, True, False, False))
    [part] = world.solve()
    assert (part.kind, part.nodes, part.rail, part.proven) == ("rail", ("n09",), 0, False)


def test_of_two_nodes_neither_is_named_alone():
    [*parts] = World(2, **both("n00", 1, 0.5)).solve()
    assert {(part.kind, part.nodes, part.proven) for part in parts} == {
        ("pair", ("n00", "n01"), False)
    }


# --- what is unknown ---------------------------------------------------------------------------


@pytest.mark.parametrize("error", ["no-perftest", "killed", "no-answer", "no-gpu-memory", "x"])
def test_an_error_of_the_tool_accuses_nobody_and_is_counted(error):
    world = World(**both("n05", 1, error))
    assert world.solve() == ()
    assert good_share(world.matrix)["unknown"] == 2 * MATCHINGS


def test_a_rate_above_the_line_is_no_result():
    world = World(**both("n05", 1, 1.0), whole=1.5)
    world.solve()
    assert good_share(world.matrix)["good"] == 0
    assert set(world.matrix.unknown.values()) == {"impossible"}


# --- rounds ------------------------------------------------------------------------------------


def test_a_healthy_fleet_is_measured_once():
    world = World(33)
    assert world.solve() == ()
    assert len(world.rounds) == MATCHINGS


@pytest.mark.parametrize("count", [8, 16, 48])
def test_a_single_fault_takes_the_matchings_and_two_retests(count):
    world = World(count, **both("n03", 0, 0.5))
    assert only(world.solve()) == ("rail", ("n03",), 0, True)
    assert len(world.rounds) == MATCHINGS + RETESTS


def test_what_is_suspected_is_tested_again_with_others_while_all_are_busy():
    world = World(**both("n03", 0, 0.5))
    world.solve()
    met = [
        {
            path.sender
            for test in tests
            if (path := path_of(test)).receiver == "n03" and path.rail == 0
        }
        for tests in world.rounds
    ]
    assert len(set().union(*met)) == MATCHINGS + RETESTS
    assert {len(tests) for tests in world.rounds} == {16 * len(RAILS)}


def test_a_rail_slow_between_all_nodes_is_its_switches():
    assert only(World(rails={2: 0.5}).solve())[::2] == ("fleet", 2)


@pytest.mark.parametrize("per_leaf", [4, 6])
def test_a_leafs_uplinks_are_told_from_the_leaf(per_leaf):
    uplinks = {("l1", "*", 2): 0.5, ("*", "l1", 2): 0.5}
    nodes = tuple(f"n{number:02d}" for number in range(per_leaf, 2 * per_leaf))
    parts = World(4 * per_leaf, per_leaf, blocks=uplinks).solve()
    assert only(parts) == ("leaf", nodes, 2, True)
    assert "its paths to and from other leaves" in parts[0].why
    whole = World(4 * per_leaf, per_leaf, blocks={**uplinks, ("l1", "l1", 2): 0.5}).solve()
    assert only(whole) == ("leaf", nodes, 2, True)
    assert "all of its paths" in whole[0].why


def test_a_leaf_bad_on_all_rails_is_one_finding():
    blocks = {ends: 0.5 for rail in RAILS for ends in (("l1", "*", rail), ("*", "l1", rail))}
    parts = World(32, 8, blocks=blocks).solve()
    assert only(parts) == ("leaf", tuple(f"n{n:02d}" for n in range(8, 16)), None, True)


def test_two_leaves_are_named_if_only_paths_between_them_are_slow():
    [part] = World(64, 16, blocks={("l1", "l3", 0): 0.3, ("l3", "l1", 0): 0.3}).solve()
    assert (part.kind, part.name, part.rail) == ("leaf", "l1 and l3", 0)


def met_in(world, one, rail):
    first = few_matchings(world.nodes, RAILS, world.leaf_of)[-1]
    return next(
        other for pair in first.pairs[rail] if one in pair for other in pair if other != one
    )


@pytest.mark.parametrize("share", [0.3, "completion"])
def test_a_bad_path_is_named_and_neither_end(share):
    other = met_in(World(), "n00", 1)
    world = World(paths={("n00", other, 1): share, (other, "n00", 1): share})
    assert only(world.solve()) == ("pair", ("n00", other), 1, True)


def test_a_path_that_passes_when_tested_again_is_not_sure():
    other = met_in(World(), "n00", 1)
    shown = [True] * MATCHINGS + [False] * RETESTS
    [part] = World(paths={("n00", other, 1): 0.3, (other, "n00", 1): 0.3}, shown=shown).solve()
    assert not part.proven
    assert "comes and goes" in part.why


@pytest.mark.parametrize(
    ("slow", "why"),
    [
        ({"whole": 0.8}, "80 %"),
        ({"blocks": {(f"l{n}", "*", rail): 0.5 for n in range(4) for rail in RAILS}}, "across lea"),
    ],
    ids=["all paths", "spines"],
)
def test_what_is_slow_everywhere_is_the_fabric(slow, why):
    [part] = World(**slow).solve()
    assert (part.kind, part.proven) == ("fleet", True)
    assert why in part.why


def test_paths_slow_by_chance_accuse_no_port():
    chance = random.Random(3)
    world = World(32, 8)
    world.paths = {
        (one, other, rail): 0.5
        for one in world.nodes
        for other in world.nodes
        for rail in RAILS
        if world.leaf_of[one] != world.leaf_of[other] and chance.random() < 0.4
    }
    parts = world.solve()
    assert {part.kind for part in parts} == {"fleet"}
    assert {part.proven for part in parts} == {False}
