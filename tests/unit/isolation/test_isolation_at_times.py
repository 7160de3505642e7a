"""Nodes and paths that are slow or hang at times: named, and nobody accused who is not."""

from __future__ import annotations

import random

import pytest
from tests.madeup.isolation import World, leaves, names

from rdmaprov.isolation.locate import FleetSearch, locate
from rdmaprov.isolation.meetings import pair_key


def test_a_hang_is_told_and_is_not_repeated():
    seen: list[int] = []
    world = World(nodes={"n5": 0.0}, noise=0.01)

    def measure(pairs):
        seen.append(sum("n5" in pair for pair in pairs))
        return world.measure(pairs)

    [part] = locate(FleetSearch(names(16), measure)).faulty_parts
    assert (part.nodes, part.hang) == (("n5",), True)
    assert sum(seen) <= 20  # none of the 15 pairs twice


def at_times(world, node, duty, seed):
    """Return a measurement of a world in which a node is slow in this share of the rounds."""
    chance = random.Random(seed)

    def measure(pairs):
        is_slow = chance.random() < duty
        return {
            pair: rate * (0.5 if is_slow and node in pair else 1)
            for pair, rate in world.measure(pairs).items()
        }

    return measure


@pytest.mark.parametrize(("count", "size"), [(9, 9), (16, 4), (64, 16)])
def test_a_node_that_is_slow_at_times_is_named(count, size):
    named = 0
    for seed in range(20):
        leaf_of, node = leaves(count, size), f"n{seed * 7 % count}"
        world = World(noise=0.01, leaf_of=leaf_of, seed=seed)
        search = FleetSearch(names(count), at_times(world, node, 0.35, seed), leaf_of)
        parts = locate(search).faulty_parts
        assert all(node in part.nodes for part in parts), parts
        assert not any(part.proven for part in parts if part.nodes != (node,))
        named += any(part.nodes == (node,) for part in parts)
    assert named >= 19


def test_a_node_that_hangs_at_times_is_named_with_its_hang():
    count = 0

    def measure(pairs):
        nonlocal count
        count += 1
        return {pair: 0.0 if count % 3 == 0 and "n5" in pair else 400.0 for pair in pairs}

    [part] = locate(FleetSearch(names(8), measure)).faulty_parts
    assert (part.kind, part.nodes, part.hang) == ("node", ("n5",), True)


def test_a_path_that_is_slow_at_times_accuses_neither_node():
    for seed in range(20):
        chance, bad = random.Random(seed), pair_key("n2", "n6")

        def measure(pairs, chance=chance, bad=bad):
            slow = chance.random() < 0.5
            return {pair: 200.0 if slow and pair_key(*pair) == bad else 400.0 for pair in pairs}

        parts = locate(FleetSearch(names(16), measure)).faulty_parts
        assert all(set(part.nodes) == set(bad) for part in parts), parts
