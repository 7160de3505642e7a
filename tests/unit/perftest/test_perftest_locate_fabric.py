"""Tests of single paths name leaves, uplinks, paths and the fabric, and never their victims."""

from __future__ import annotations

import random

import pytest
from tests.unit.helpers.path_world import RAILS, World, only

from rdmaprov.perftest.locate import RETESTS
from rdmaprov.perftest.matchings import MATCHINGS, few_matchings


def test_a_rail_slow_between_all_nodes_is_its_switches():
    parts = World(rails={2: 0.5}).solve()
    assert only(parts)[::2] == ("fleet", 2)


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
    world = World(64, 16, blocks={("l1", "l3", 0): 0.3, ("l3", "l1", 0): 0.3})
    [part] = world.solve()
    assert (part.kind, part.name, part.rail) == ("leaf", "l1 and l3", 0)


def met_in(world, one, rail):
    """Return a node that the matchings of a world have one meet on a rail."""
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
    world = World(paths={("n00", other, 1): 0.3, (other, "n00", 1): 0.3}, shown=shown)
    [part] = world.solve()
    assert not part.proven
    assert "comes and goes" in part.why


def test_all_paths_slow_is_the_fabric():
    [part] = World(whole=0.8).solve()
    assert (part.kind, part.proven) == ("fleet", True)
    assert "80 %" in part.why


def test_slow_spines_are_the_fabric():
    blocks = {(f"l{one}", "*", rail): 0.5 for one in range(4) for rail in RAILS}
    [part] = World(blocks=blocks).solve()
    assert (part.kind, part.proven) == ("fleet", True)
    assert "across leaves" in part.why


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
