"""Matchings: disjoint pairs of all nodes on each rail, in which leaves mix."""

from collections import Counter
from dataclasses import replace

import pytest

from rdmaprov.isolation.meetings import pair_key
from rdmaprov.perftest.matchings import MATCHINGS, all_matchings, few_matchings

RAILS = (0, 1, 2, 3)


def fleet(count, per_leaf=4):
    nodes = [f"n{number:03d}" for number in range(count)]
    return nodes, {node: f"leaf{number // per_leaf}" for number, node in enumerate(nodes)}


def pairs_of(matchings, rail):
    return [pair for matching in matchings for pair in matching.pairs[rail]]


def idle(nodes, matching, rail):
    return set(nodes) - {node for pair in matching.pairs[rail] for node in pair}


@pytest.mark.parametrize(("count", "per_leaf"), [(8, 4), (16, 4), (17, 4), (48, 7), (64, 32)])
def test_each_node_is_in_each_matching_once_and_no_pair_is_twice(count, per_leaf):
    nodes, leaf_of = fleet(count, per_leaf)
    matchings = few_matchings(nodes, RAILS, leaf_of)
    assert len(matchings) == MATCHINGS
    for rail in RAILS:
        for matching in matchings:
            times = Counter(node for pair in matching.pairs[rail] for node in pair)
            assert set(times.values()) == {1}
            assert len(idle(nodes, matching, rail)) == count % 2
        met = [pair_key(*pair) for pair in pairs_of(matchings, rail)]
        assert len(met) == len(set(met))


def test_a_third_of_the_matchings_is_under_leaves_and_the_others_are_across():
    nodes, leaf_of = fleet(64, 16)
    near = [
        [leaf_of[one] == leaf_of[other] for one, other in matching.pairs[0]]
        for matching in few_matchings(nodes, RAILS, leaf_of)
    ]
    assert [all(each) for each in near] == [True, True, False, False, False, False]
    assert not any(any(each) for each in near[2:])


def test_each_leaf_meets_all_others_about_as_often():
    nodes, leaf_of = fleet(64, 16)
    met = Counter(
        pair_key(leaf_of[one], leaf_of[other])
        for matching in few_matchings(nodes, (0,), leaf_of)[2:]
        for one, other in matching.pairs[0]
    )
    assert len(met) == 6
    assert max(met.values()) - min(met.values()) <= 4


def test_rails_have_pairs_of_their_own():
    nodes, leaf_of = fleet(64, 16)
    matchings = few_matchings(nodes, RAILS, leaf_of)
    partners = {
        next(
            node
            for pair in matching.pairs[rail]
            if "n000" in pair
            for node in pair
            if node != "n000"
        )
        for matching in matchings
        for rail in RAILS
    }
    assert len(partners) > 2 * MATCHINGS


@pytest.mark.parametrize("count", [2, 3, 5, 6])
def test_of_few_nodes_all_pairs_are_tested(count):
    nodes, leaf_of = fleet(count, 2)
    matchings = few_matchings(nodes, RAILS, leaf_of)
    assert len(set(map(pair_key, *zip(*pairs_of(matchings, 0), strict=True)))) == (
        count * (count - 1) // 2
    )


def test_without_leaves_all_nodes_are_paired():
    nodes, _ = fleet(33)
    matchings = few_matchings(nodes, RAILS, {})
    assert len(matchings) == MATCHINGS
    assert all(len(idle(nodes, matching, 2)) == 1 for matching in matchings)


def test_leaves_of_one_node_are_met_across():
    nodes, _ = fleet(12)
    matchings = few_matchings(nodes, (0,), {node: node for node in nodes})
    assert [len(matching.pairs[0]) for matching in matchings] == [6] * MATCHINGS


def test_a_large_leaf_beside_small_ones_leaves_nobody_over_that_could_be_paired():
    nodes = [f"n{number:02d}" for number in range(24)]
    leaf_of = {node: "big" if number < 12 else f"l{number}" for number, node in enumerate(nodes)}
    across = few_matchings(nodes, (0,), leaf_of)[2:]
    assert [len(matching.pairs[0]) for matching in across] == [12] * 4


def test_matchings_are_the_same_each_time():
    nodes, leaf_of = fleet(16)
    assert few_matchings(nodes, RAILS, leaf_of) == few_matchings(nodes, RAILS, leaf_of)


@pytest.mark.parametrize(("count", "rounds"), [(8, 7), (9, 9)])
def test_all_pairs_are_in_one_round_each(count, rounds):
    nodes, _ = fleet(count)
    matchings = list(all_matchings(nodes, RAILS))
    assert len(matchings) == rounds
    met = [pair_key(*pair) for pair in pairs_of(matchings, 3)]
    assert len(met) == len(set(met)) == count * (count - 1) // 2


@pytest.mark.parametrize("shift", [0, 1, 3])
def test_a_rail_sends_and_receives_in_one_test_each(shift):
    nodes, leaf_of = fleet(17)
    for matching in few_matchings(nodes, RAILS, leaf_of):
        tests = replace(matching, shift=shift).tests(RAILS)
        assert len(tests) == 2 * 8 * len(RAILS)
        for ends in ([test.sender for test in tests], [test.receiver for test in tests]):
            assert len(ends) == len(set(ends))
        assert {(test.receiver.rail - test.sender.rail) % 4 for test in tests} == {shift}


def test_tests_have_the_memory_of_their_rail():
    nodes, leaf_of = fleet(8)
    memory = {(node, rail): f"gpu{2 * rail}" for node in nodes for rail in RAILS}
    matching = replace(few_matchings(nodes, RAILS, leaf_of)[0], shift=1)
    tests = matching.tests(RAILS, measures="latency", size=2, memory=memory)
    assert {(test.measures, test.size) for test in tests} == {("latency", 2)}
    assert all(end.memory == f"gpu{2 * end.rail}" for t in tests for end in (t.sender, t.receiver))
