"""Tests of single paths name ports and nodes at fault, and never their victims."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.helpers.path_world import RAILS, World, both, only

from rdmaprov.perftest.locate import RETESTS, good_share
from rdmaprov.perftest.matchings import MATCHINGS
from rdmaprov.perftest.matrix import path_of

# --- one port ----------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.9, 0.5, 0.02])
@pytest.mark.parametrize("count", [4, 5, 16])
def test_a_slow_port_is_named_and_nobody_else(count, share):
    world = World(count, **both("n02", 3, share))
    assert only(world.solve()) == ("rail", ("n02",), 3, True)


@pytest.mark.parametrize(("way", "word"), [("sends", "sends"), ("receives", "receives")])
def test_a_port_that_is_slow_one_way_does_not_accuse_its_partners(way, word):
    slow: dict[str, Any] = {way: {("n05", 1): 0.5}}
    world = World(**slow)
    parts = world.solve()
    assert only(parts) == ("rail", ("n05",), 1, True)
    assert f"it {word} 5" in parts[0].why


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


def test_a_little_slower_is_seen_by_many_paths_together():
    world = World(sends={("n07", rail): 0.945 for rail in RAILS})
    parts = world.solve()
    assert only(parts) == ("node", ("n07",), None, True)
    assert "it sends 94 %" in parts[0].why


# --- nodes, rails, leaves ----------------------------------------------------------------------


def test_a_node_slow_on_all_rails_is_one_finding():
    slow = {("n03", rail): 0.4 for rail in RAILS}
    assert only(World(sends=slow, receives=slow).solve()) == ("node", ("n03",), None, True)


def test_a_node_slow_on_half_of_its_rails_is_one_finding_that_lists_them():
    slow = {("n03", rail): 0.5 for rail in (1, 2)}
    parts = World(sends=slow, receives=slow).solve()
    assert only(parts) == ("node", ("n03",), None, True)
    assert parts[0].why.startswith("rails 1, 2: ")


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
