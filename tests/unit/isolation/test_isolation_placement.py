"""Nodes under another leaf than the site says are named by latency, and nobody else is."""

from __future__ import annotations

import random

import pytest
from tests.madeup.isolation import leaves, names

from rdmaprov.isolation.placement import misplaced, placement_rounds

NEAR_US, FAR_US = 9.0, 10.5


def latencies(stated, really, *, noise=0.01, seed=0, slow=()):
    """Return what the rounds measure in a fabric in which nodes are really under some leaves."""
    chance = random.Random(seed)
    return {
        (one, other): (NEAR_US if really[one] == really[other] else FAR_US) * chance.gauss(1, noise)
        + sum(slow[node] for node in (one, other) if node in slow)
        for pairs in placement_rounds(stated)
        for one, other in pairs
    }


@pytest.mark.parametrize(("count", "size"), [(12, 3), (16, 4), (64, 16), (512, 32)])
def test_a_node_under_another_leaf_is_named(count, size):
    stated = leaves(count, size)
    for number in (0, count // 2, count - 1):
        node = f"n{number}"
        other = next(leaf for leaf in stated.values() if leaf != stated[node])
        [part] = misplaced(latencies(stated, {**stated, node: other}), stated)
        assert (part.kind, part.nodes, part.proven) == ("node", (node,), False)
        assert f"not under {stated[node]} as the site says" in part.why
        assert "lldpctl" in part.remedy


def test_of_cables_as_stated_nobody_is_named():
    stated = leaves(64, 16)
    for seed in range(200):
        assert misplaced(latencies(stated, stated, seed=seed), stated) == []


@pytest.mark.parametrize("us", [1.5, 3.0, 300.0])
def test_a_node_that_is_slow_wherever_it_is_is_not_misplaced(us):
    stated = leaves(64, 16)
    assert misplaced(latencies(stated, stated, slow={"n9": us}), stated) == []


def test_where_latencies_scatter_they_say_nothing():
    stated = leaves(64, 16)
    assert misplaced(latencies(stated, {**stated, "n9": "leaf3"}, noise=0.05), stated) == []


def test_leaves_that_mean_something_else_accuse_nobody():
    stated, racks = leaves(64, 16), {f"n{number}": str(number % 8) for number in range(64)}
    assert misplaced(latencies(stated, racks), stated) == []


def test_pairs_that_were_not_measured_are_no_evidence():
    stated = leaves(16, 4)
    assert misplaced({}, stated) == []
    assert misplaced(dict.fromkeys(latencies(stated, stated), 0.0), stated) == []


@pytest.mark.parametrize("stated", [{}, leaves(16, 16), leaves(16, 2), dict.fromkeys(names(9), "")])
def test_a_site_whose_leaves_say_nothing_costs_no_round(stated):
    assert list(placement_rounds(stated)) == []


def test_a_round_has_each_node_once():
    for pairs in placement_rounds(leaves(50, 7)):
        nodes = [node for pair in pairs for node in pair]
        assert nodes
        assert len(nodes) == len(set(nodes))
