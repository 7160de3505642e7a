"""The made-up fleet obeys physics: what a part loses, a collective loses, and nothing else."""

from __future__ import annotations

import pytest
from tests.madeup.collectives import costs
from tests.madeup.condition import Condition
from tests.madeup.flows import Team, parents
from tests.madeup.shape import FleetShape, usual_shape

LARGE = 8 << 30


def team(shape, rails=None):
    own = tuple(range(shape.rails if rails is None else rails))
    return Team(tuple(range(shape.nodes)), tuple(range(shape.gpus)), (own,) * shape.nodes)


def busbw(condition, algorithm="RING", size=LARGE, rails=None):
    whole = team(condition.shape, rails)
    (cost,), _, _ = costs(condition, [whole], "all_reduce", [algorithm])
    return size / cost.us(size) / 1e3 * 2 * (whole.ranks - 1) / whole.ranks


def healthy(shape, efficiency=0.95):
    return Condition(shape, efficiency)


@pytest.mark.parametrize(
    ("nodes", "algorithm", "published"),
    [
        (2, "NVLS_TREE", 466.73),  # nccl-tests#309
        (2, "RING", 392.69),  # nccl-tests#309
        (4, "NVLS_TREE", 365.84),  # nccl-tests#309
        (8, "NVLS_TREE", 391.37),  # nccl-tests#309
        (12, "NVLS_TREE", 386.56),  # coreweave/nccl-tests README
        (248, "NVLS_TREE", 350.0),  # nccl-tests#283
    ],
)
def test_a_healthy_fleet_reaches_what_was_published(nodes, algorithm, published):
    # Within the range of efficiencies that a made-up fleet can have, and 2 % of either end.
    shape = usual_shape(nodes)
    least, most = (busbw(healthy(shape, share), algorithm) for share in (0.84, 0.98))
    assert 0.98 * least <= published <= 1.02 * most


def test_rings_lose_with_the_number_of_nodes_and_trees_do_not():
    rings = [busbw(healthy(usual_shape(nodes)), "RING") for nodes in (2, 16, 64, 512)]
    trees = [busbw(healthy(usual_shape(nodes)), "NVLS_TREE") for nodes in (16, 64, 512)]
    assert rings == sorted(rings, reverse=True)
    assert rings[-1] < 0.7 * 400 < rings[0]
    assert min(trees) > 0.99 * max(trees)


def test_half_a_slot_gives_half():
    shape = usual_shape(16)
    whole, bad = healthy(shape), healthy(shape)
    bad.slot_gb_s[5, 3] /= 2
    # Of 400G a slot of 16 lanes carries more than the line, half of it 58 %.
    assert 0.46 <= busbw(bad) / 400 <= 0.58
    assert busbw(bad) / busbw(whole) == pytest.approx(0.58, abs=0.02)


def test_a_missing_rail_gives_seven_eighths():
    shape = usual_shape(16)
    assert 0.70 <= busbw(healthy(shape, 0.92), rails=7) / 400 <= 0.86


def test_a_ring_inside_its_leaves_does_not_see_half_of_the_uplinks():
    shape = usual_shape(64)
    whole, bad = healthy(shape), healthy(shape)
    bad.uplink_gb_s[0, : shape.per_leaf // 2] = 0
    assert busbw(bad) == busbw(whole)


def pairs_across(shape):
    half = shape.nodes // 2
    gpus, rails = tuple(range(shape.gpus)), (tuple(range(shape.rails)),) * 2
    return [Team((node, node + half), gpus, rails) for node in range(half)]


def pair_rates(condition):
    found, _, _ = costs(
        condition,
        pairs_across(condition.shape),
        "all_reduce",
        ["RING"] * (condition.shape.nodes // 2),
    )
    return [1 / cost.second_per_byte for cost in found]


def test_pairs_across_the_spine_see_half_of_the_uplinks():
    shape = usual_shape(64)
    whole, bad = healthy(shape), healthy(shape)
    bad.uplink_gb_s[0, : shape.per_leaf // 2] = 0
    shares = [b / w for b, w in zip(pair_rates(bad), pair_rates(whole), strict=True)]
    # The nodes of the first leaf, and nobody else.
    assert shares == pytest.approx([0.5] * shape.per_leaf + [1.0] * shape.per_leaf, abs=0.01)


def test_flows_collide_without_adaptive_routing():
    shape = usual_shape(64)
    bad = healthy(shape)
    bad.adaptive[:] = False
    shares = [b / w for b, w in zip(pair_rates(bad), pair_rates(healthy(shape)), strict=True)]
    assert min(shares) < 0.6


def test_loss_collapses_a_lossless_transport():
    shape = usual_shape(16)

    def share(loss):
        bad = healthy(shape)
        bad.loss[5, 3] = loss
        return busbw(bad) / busbw(healthy(shape))

    assert share(1e-6) > 0.99
    assert share(1e-3) < 0.3
    assert share(1e-2) < 0.05


def test_a_switch_without_pfc_harms_trees_more_than_rings():
    shape = usual_shape(16)
    bad = healthy(shape)
    bad.lossless[:] = False
    whole = healthy(shape)
    assert busbw(bad, "NVLS_TREE") / busbw(whole, "NVLS_TREE") < 0.5
    assert busbw(bad, "RING") / busbw(whole, "RING") > 0.9


def test_a_slow_gpu_slows_its_node_alone():
    shape = usual_shape(16)
    bad = healthy(shape)
    bad.gpu_gb_s[4, 2] *= 0.3
    gpus = tuple(range(8))
    alone = [Team((node,), gpus, ((),)) for node in range(16)]
    found, flows, _ = costs(bad, alone, "all_reduce", ["NVLS"] * 16)
    rates = [1 / cost.second_per_byte for cost in found]
    assert flows is None
    assert [rate < 0.5 * max(rates) for rate in rates] == [node == 4 for node in range(16)]


def test_a_tree_has_one_root_and_at_most_two_children():
    for many in (2, 3, 5, 8, 31, 512):
        above = parents(many)
        assert above.count(-1) == 1
        assert max(above.count(node) for node in range(many)) <= 2


def test_a_fleet_of_one_rail_has_one():
    shape = FleetShape(4, gpus=1, rails=1, nvls=False, per_leaf=2)
    assert 40 < busbw(healthy(shape)) < 50
