"""Loads against what a topology allows, the flows of collectives; hosts on a wrong leaf."""

import pytest
from tests.unit.helpers.subnet_texts import HEALTHY, Texts

from rdmaprov.subnet.check_cables import order_problems
from rdmaprov.subnet.check_routes import lost_share
from rdmaprov.subnet.directory import read_directory
from rdmaprov.subnet.fabric import build
from rdmaprov.subnet.loads import Load, fair_load, rails, ring, ringx, tree
from rdmaprov.subnet.model import Cable, Discovery, Kind, PortEnd
from rdmaprov.subnet.problem import word


@pytest.fixture(scope="module")
def fabric():
    return build(read_directory(HEALTHY).discovery)


@pytest.mark.parametrize(
    ("groups", "fair"),
    [
        ({(1, 2, 3, 4): 8}, 2),
        ({(1, 2, 3): 8}, 3),
        ({(1, 2): 8, (2,): 8}, 8),
        ({(1, 2): 2, (3, 4): 20}, 10),
        ({}, 0),
    ],
)
def test_fair_load_is_what_the_links_need_at_least(groups, fair):
    assert fair_load({frozenset(links): flows for links, flows in groups.items()}) == fair


def test_fair_load_of_many_sets_is_a_lower_bound():
    assert 3 <= fair_load({frozenset({number, number + 1}): 6 for number in range(20)}) <= 6


def test_levels_and_rails_are_found(fabric):
    names = [fabric.label(leaf) for leaf in fabric.leaves()]
    assert names == ["leaf-p1-r0", "leaf-p1-r1", "leaf-p2-r0", "leaf-p2-r1"]
    assert [len(rail) for rail in rails(fabric)] == [16, 16]


def test_ring_over_the_leaves_always_crosses(fabric):
    (rail, _) = rails(fabric)
    assert all(one.switch != other.switch for one, other in ringx(rail))
    assert sum(one.switch != other.switch for one, other in ring(rail)) == 2


@pytest.mark.parametrize("count", range(2, 9))
def test_each_node_has_a_parent_in_one_tree_at_least(fabric, count):
    """Both trees have count - 1 edges, in both directions; together they reach every node."""
    rail = rails(fabric)[0][:count]
    flows = list(tree(rail))
    assert len(flows) == 4 * (count - 1)
    assert {one.end.name for one, _ in flows} == {hca.end.name for hca in rail}
    assert {(one.end.guid, other.end.guid) for one, other in flows} == {
        (other.end.guid, one.end.guid) for one, other in flows
    }


def test_a_pattern_without_a_flow_over_leaves_costs_nothing():
    assert lost_share({"ringx": Load({}, [], worst=None, worst_above=None, worst_down=None)}) == 0


def of_leaves(leaf_of, hosts=24):
    cables = []
    for number in range(1, hosts + 1):
        leaf = leaf_of(number)
        switch = PortEnd(Kind.SWITCH, 100 + leaf, 100 + leaf, number, f"leaf-{leaf}")
        hca = PortEnd(Kind.HCA, 1000 + number, number, 1, f"node{number:03d} mlx5_0")
        cables.append(Cable(switch, hca, 4, 50.0, "HDR"))
    return build(Discovery(tuple(cables), ()))


def in_order(number):
    return (number - 1) // 8


def test_two_swapped_hosts_are_named():
    swapped = {2: 2, 19: 0}
    found = order_problems(of_leaves(lambda number: swapped.get(number, in_order(number))))
    assert [each.part for each in found] == ["node002 mlx5_0", "node019 mlx5_0"]


@pytest.mark.parametrize(
    "leaf_of",
    [in_order, lambda number: number % 2, lambda number: number % 3, lambda number: number * 7 % 5],
)
def test_regular_orders_have_no_problem(leaf_of):
    assert list(order_problems(of_leaves(leaf_of))) == []


def test_few_hosts_show_no_order():
    assert list(order_problems(of_leaves(lambda number: int(number == 3), hosts=6))) == []


def test_hosts_of_a_leaf_that_is_off_are_named(tmp_path):
    texts = Texts(tmp_path)
    texts.gone("leaf-p1-r1", *(f"node{number:03d} mlx5_1" for number in range(1, 9)))
    named = {each.part for each in texts.judge().problems if word(each) == "missing"}
    assert {f"node{number:03d} mlx5_1" for number in range(1, 9)} <= named
