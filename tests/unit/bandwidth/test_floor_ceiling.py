"""Ceilings of an all-reduce: what the links of a fabric carry by each algorithm."""

from __future__ import annotations

import itertools

import pytest
from tests.unit.helpers.floors import H100

from rdmaprov.bandwidth import ceiling
from rdmaprov.bandwidth.fabric import Fabric, parse_slot
from rdmaprov.bandwidth.floor import derive


def edges_of_the_busiest(count):
    """Return the most edges that a node has in two binary trees, the second shifted or mirrored."""

    def tree(numbers):
        edges = []
        for child in range(1, count):
            low = child & -child
            parent = (child ^ low) | (low << 1)
            edges.append((child, parent if parent < count else child ^ low))
        return [(numbers[a], numbers[b]) for a, b in edges]

    straight = list(range(count))
    other = straight[::-1] if count % 2 == 0 else [*straight[1:], 0]
    ends = list(itertools.chain(*tree(straight), *tree(other)))
    return max(ends.count(node) for node in straight)


@pytest.mark.parametrize("count", [2, 3, *range(4, 40), 127, 128])
def test_tree_links_are_those_of_the_trees_themselves(count):
    assert ceiling.tree_links(count) == edges_of_the_busiest(count)


@pytest.mark.parametrize(
    ("nodes", "most"), [(2, 400 * 15 / 8), (3, 400 * 4 / 3 * 23 / 24), (4, 400 * 31 / 32)]
)
def test_a_tree_beats_a_ring_on_two_and_three_nodes_only(nodes, most):
    assert ceiling.max_gb_s(Fabric(nodes, 8, 8, 400), "tree") == pytest.approx(most)


def test_a_ring_reaches_the_sum_of_the_rails():
    assert ceiling.max_gb_s(H100, "ring") == pytest.approx(400)


def test_sharp_nearly_doubles_a_ring_at_any_size():
    assert ceiling.max_gb_s(Fabric(1024, 8, 8, 400), "sharp") == pytest.approx(800, rel=1e-3)


def test_one_gpu_cannot_fill_four_rails():
    assert ceiling.ring_gb_s(Fabric(2, 1, 4, 400)) == pytest.approx(57.6, abs=0.1)


def test_a_slot_limits_the_rail_in_it():
    at_gen4 = ceiling.ring_gb_s(Fabric(2, 8, 8, 400, pcie=parse_slot("4x16")))
    assert at_gen4 == pytest.approx(8 * 28.8, abs=0.5)


def test_oversubscription_lowers_the_floor_and_not_what_is_possible():
    blocking = derive(Fabric(16, 8, 8, 400, oversubscription=2))
    assert blocking.ceiling_gb_s == 200
    assert blocking.floor_gb_s == pytest.approx(derive(H100).floor_gb_s / 2, rel=0.02)
    assert blocking.most_gb_s == derive(H100).most_gb_s
