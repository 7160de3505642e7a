"""Who is at fault: found in few rounds, and nobody accused who is not."""

from __future__ import annotations

import math
import random
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from bench import isolation as simulation
from bench.isolation import World, names, solve

from rdmaprov.isolation.pairs import round_robin
from rdmaprov.isolation.rounds import Group, GroupOutcome, plan

DOCS = Path(__file__).parents[2] / "docs/acceptance.md"


def found(nodes, world, leaves=None, **how):
    return solve(plan(names(nodes), leaves, **how), world)


def leaves_of(count, size):
    named: dict[str, list[str]] = {}
    for index in range(count):
        named.setdefault(f"leaf{index // size}", []).append(f"n{index}")
    return named


def bad_node(index, **more):
    return World(nodes=frozenset([f"n{index}"]), **more)


def bad_pair(one, two):
    return World(pairs=frozenset([frozenset([f"n{one}", f"n{two}"])]))


# --- one bad node --------------------------------------------------------------------------


@pytest.mark.parametrize("count", range(3, 65))
def test_each_bad_node_is_found_in_few_rounds(count):
    for index in range(count):
        done = found(count, bad_node(index))
        [part] = done.faulty_parts
        assert (part.kind, part.nodes) == ("node", (f"n{index}",))
        assert part.confidence == "high"
        assert done.rounds <= math.log2(count) + 3


@pytest.mark.parametrize("count", [65, 100, 127, 129, 500, 1000, 1025, 2047, 2049, 4095, 4096])
def test_a_bad_node_of_many_is_found_in_few_rounds(count):
    chance = random.Random(count)
    for index in (0, count - 1, *chance.sample(range(count), 4)):
        done = found(count, bad_node(index))
        assert [part.nodes for part in done.faulty_parts] == [(f"n{index}",)]
        assert done.rounds <= math.log2(count) + 3


@pytest.mark.parametrize("size", [2, 8, 16])
def test_a_bad_node_is_found_inside_its_leaf(size):
    for index in range(64):
        done = found(64, bad_node(index), leaves_of(64, size))
        assert [part.nodes for part in done.faulty_parts] == [(f"n{index}",)]
        assert done.rounds <= math.log2(64) + 3


# --- other faults --------------------------------------------------------------------------


@pytest.mark.parametrize("count", [4, 5, 6, 7, 8, 13, 16, 17])
def test_any_two_bad_nodes_are_found(count):
    for pair in combinations(names(count), 2):
        done = found(count, World(nodes=frozenset(pair)))
        assert {part.nodes for part in done.faulty_parts} == {(node,) for node in pair}


@pytest.mark.parametrize("count", [3, 4, 5, 6, 7, 8, 13, 16, 17])
def test_any_bad_pair_is_found(count):
    for one, two in combinations(range(count), 2):
        [part] = found(count, bad_pair(one, two)).faulty_parts
        assert (part.kind, set(part.nodes)) == ("pair", {f"n{one}", f"n{two}"})
        assert part.confidence == "high"


def test_a_bad_pair_among_thousands_is_found():
    done = found(4096, bad_pair(17, 4000))
    assert [set(part.nodes) for part in done.faulty_parts] == [{"n17", "n4000"}]
    assert done.rounds <= plan(names(4096)).estimate(1).pair_rounds


@pytest.mark.parametrize("leaf", range(5))
def test_a_leaf_that_is_slow_to_others_only_is_named(leaf):
    leaves = leaves_of(40, 8)
    done = found(40, World(leaves=(frozenset(leaves[f"leaf{leaf}"]),)), leaves)
    [part] = done.faulty_parts
    assert (part.kind, part.name, part.confidence) == ("leaf", f"leaf{leaf}", "high")


def test_of_two_leaves_nothing_tells_which():
    leaves = leaves_of(16, 8)
    [part] = found(16, World(leaves=(frozenset(leaves["leaf0"]),)), leaves).faulty_parts
    assert (part.kind, part.name, part.confidence) == ("leaf", "leaf0 and leaf1", "low")


def test_a_pair_across_two_leaves_is_no_leaf():
    [part] = found(16, bad_pair(3, 12), leaves_of(16, 8)).faulty_parts
    assert (part.kind, set(part.nodes)) == ("pair", {"n3", "n12"})


@pytest.mark.parametrize("rail", [0, 3, 7])
def test_one_bad_rail_of_a_node_is_named(rail):
    world = World(rails=frozenset([("n5", rail)]))
    [part] = found(16, world, rails=8).faulty_parts
    assert (part.kind, part.nodes, part.rail) == ("rail", ("n5",), rail)


def test_two_bad_rails_of_a_node_are_the_node():
    world = World(rails=frozenset([("n5", 1), ("n5", 6)]))
    [part] = found(16, world, rails=8).faulty_parts
    assert (part.kind, part.nodes) == ("node", ("n5",))


def test_a_plane_that_is_bad_everywhere_is_a_rail():
    world = World(rails=frozenset((node, 2) for node in names(8)))
    [part] = found(8, world, rails=4).faulty_parts
    assert (part.kind, part.rail, part.confidence) == ("rail", 2, "low")


def test_a_hang_is_an_outcome_and_is_told():
    [part] = found(16, bad_node(3, hangs=frozenset(["n3"]))).faulty_parts
    assert (part.nodes, part.hang) == (("n3",), True)


def test_two_nodes_alone_cannot_be_told_apart():
    [part] = found(2, bad_node(0)).faulty_parts
    assert (part.kind, part.nodes, part.confidence) == ("pair", ("n0", "n1"), "low")


def test_with_one_good_node_left_nothing_can_be_told():
    done = found(5, World(nodes=frozenset(names(4))))
    assert done.faulty_parts == ()
    assert set(done.unsure) == set(names(5))


def test_two_good_nodes_are_enough_to_name_all_others():
    done = found(12, World(nodes=frozenset(names(10))))
    assert {part.nodes for part in done.faulty_parts} == {(node,) for node in names(10)}


def test_all_bad_ends_with_nobody_accused():
    done = found(300, World(nodes=frozenset(names(300))))
    assert done.faulty_parts == ()
    assert done.rounds < 60


def test_a_fault_that_went_away_accuses_nobody():
    done = found(16, World())
    assert (done.faulty_parts, done.unsure) == ((), ())


# --- nobody is accused who is not at fault -------------------------------------------------


def trial(chance):
    """Return a fleet with random faults: its nodes, its leaves, its rails, and the world."""
    nodes = names(chance.choice([2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48]))
    size = chance.choice([0, 2, 3, 4, 8])
    leaves = leaves_of(len(nodes), size) if 0 < size < len(nodes) else {}
    kind = chance.choice(["nodes", "many", "pair", "leaf", "rail", "both", "none"])
    faults: dict[str, Any] = {}
    if kind in {"nodes", "both"}:
        faults["nodes"] = frozenset(chance.sample(nodes, min(len(nodes), chance.randint(1, 3))))
    if kind == "many":
        faults["nodes"] = frozenset(chance.sample(nodes, chance.randrange(len(nodes))))
    if kind in {"pair", "both"}:
        faults["pairs"] = frozenset([frozenset(chance.sample(nodes, 2))])
    if kind == "leaf" and leaves:
        faults["leaves"] = (frozenset(chance.choice(list(leaves.values()))),)
    if kind == "rail":
        faults["rails"] = frozenset([(chance.choice(nodes), chance.randrange(8))])
    return nodes, leaves, 8 if kind == "rail" else 1, World(**faults)


def is_true(part, world):
    """Return whether what is said of a part is so.

    With low confidence it is only said that these nodes are bad together.
    """
    nodes = set(part.nodes)
    if part.confidence == "low":
        return world.is_bad(Group(part.nodes))
    return {
        "node": nodes <= world.nodes or nodes in world.leaves,
        "pair": nodes in world.pairs,
        "leaf": nodes in world.leaves,
        "rail": (part.nodes[0], part.rail) in world.rails and len(nodes) == 1,
    }[part.kind]


def test_no_false_accusation_in_ten_thousand_trials():
    chance = random.Random(2026)
    missed = 0
    for _ in range(10_000):
        nodes, leaves, rails, world = trial(chance)
        done = solve(plan(nodes, leaves, rails=rails), world)
        assert all(is_true(part, world) for part in done.faulty_parts), (world, done)
        missed += world.is_bad(Group(nodes)) and not (done.faulty_parts or done.unsure)
    assert missed == 0


# --- noise ---------------------------------------------------------------------------------


def test_repeats_outvote_a_test_that_errs():
    once, thrice = (simulation.rates(32, 0.05, times, 200) for times in (1, 3))
    assert thrice.false < once.false / 2


def test_rates_of_the_docs_are_measured():
    assert simulation.table() in DOCS.read_text(encoding="utf-8")


# --- the interface -------------------------------------------------------------------------


def test_the_cost_is_announced_and_kept():
    isolation = plan(names(100), repeats=3)
    announced = isolation.estimate(seconds_per_round=60)
    assert announced.seconds == announced.node_rounds * 60
    assert solve(isolation, bad_node(41)).rounds <= announced.node_rounds
    assert str(announced.node_rounds) in str(announced)


def test_a_round_is_the_same_until_it_is_observed():
    isolation = plan(names(8))
    assert isolation.next_round() == isolation.next_round()
    assert isolation.verdict().rounds == 0


def test_a_group_without_outcome_is_an_error():
    isolation = plan(names(8))
    first, *_ = isolation.next_round()
    with pytest.raises(KeyError):
        isolation.observe({first: GroupOutcome.GOOD})


@pytest.mark.parametrize("nodes", [(), ("a",), ("a", "b", "a")])
def test_too_few_or_doubled_nodes_are_refused(nodes):
    with pytest.raises(ValueError, match="two nodes or more"):
        plan(nodes)


def test_an_even_number_of_repeats_is_refused():
    with pytest.raises(ValueError, match="no majority"):
        plan(names(4), repeats=2)


# --- all pairs -----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 4, 5, 16, 33, 64])
def test_round_robin_meets_all_pairs_once(count):
    rounds = list(round_robin(names(count)))
    met = [frozenset(pair) for pairs in rounds for pair in pairs]
    assert len(rounds) == (count - 1 if count % 2 == 0 else count)
    assert len(met) == len(set(met)) == count * (count - 1) // 2
    assert all(len({node for pair in pairs for node in pair}) == 2 * len(pairs) for pairs in rounds)


def test_round_robin_of_one_has_no_round():
    assert list(round_robin(["a"])) == []
