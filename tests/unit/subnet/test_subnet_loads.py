"""Loads against what a topology allows, the flows of collectives, and the picture of them."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from tests.unit.helpers.subnet_texts import HEALTHY

from rdmaprov.report.of_subnet import MOST_COLUMNS, MOST_ROWS, draw, matrix_of, plots
from rdmaprov.site_subnet.result import level_loads
from rdmaprov.subnet.check_routes import lost_share
from rdmaprov.subnet.directory import read_directory
from rdmaprov.subnet.fabric import build
from rdmaprov.subnet.loads import Load, fair_load, rails, ring, ringx, tree


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


RING = "#b3202a"


def loads_of(texts):
    (level,) = level_loads(texts.judge())
    return asdict(level)


def made(above, below, uneven=()):
    """Return even loads of one cable each; in uneven columns the first switch has all."""
    flows = [[1] * below for _ in range(above)]
    for column in uneven:
        for row in range(above):
            flows[row][column] = 0 if row else above
    return {
        "pattern": "ringx",
        "below": [f"leaf{number}" for number in range(below)],
        "above": [f"spine{number}" for number in range(above)],
        "cables": [[1] * below for _ in range(above)],
        "busiest": flows,
        "flows": flows,
    }


def test_even_routes_have_no_marked_cell_and_fair_shares(texts):
    matrix = matrix_of(loads_of(texts))
    assert matrix.above == ("spine-1", "spine-2", "spine-3", "spine-4")
    assert matrix.below == ("leaf-p1-r0", "leaf-p1-r1", "leaf-p2-r0", "leaf-p2-r1")
    assert {load for row in matrix.loads for load in row} == {1}
    assert {share for *_, share in matrix.totals} == {0.25}
    assert matrix.uneven() == []
    assert RING not in draw("even", matrix)


def test_routes_over_one_cable_are_marked_there(texts):
    texts.route(lambda switch, _, port, __: 9 if "leaf-p1-r0" in switch and port > 8 else port)
    matrix = matrix_of(loads_of(texts))
    assert matrix.uneven() == [(0, 0, 8)]
    assert [row[0] for row in matrix.loads] == [8, 0, 0, 0]
    assert RING in draw("uneven", matrix)
    plot = plots({"subnets": [{"device": "", "loads": [loads_of(texts)]}]})[0]
    assert "leaf-p1-r0 to spine-1 (8.0)" in plot.words
    assert plot.table.rows[0][:2] == ("spine-1", "8")


def test_large_fabric_is_merged_into_cells_that_show_the_worst():
    matrix = matrix_of(made(100, 300, uneven=[299]))
    assert len(matrix.above) <= MOST_ROWS
    assert len(matrix.below) <= MOST_COLUMNS
    assert matrix.uneven() == [(0, len(matrix.below) - 1, 100)]
    assert len(draw("large", matrix)) < 1_500_000


def test_fabric_of_512_nodes_with_8_rails_has_a_cell_for_each_pair():
    matrix = matrix_of(made(32, 128))
    assert (matrix.rows_each, matrix.columns_each) == (1, 1)


def test_names_are_text_and_no_markup():
    loads = made(2, 2)
    loads["below"][0] = "<script>&"
    (plot,) = plots({"subnets": [{"device": "", "loads": [loads]}]})
    assert "<script>" not in (plot.svg or "")
    assert "&lt;script&gt;&amp;" in (plot.svg or "")


def test_fabric_without_spines_has_no_picture():
    assert plots({"subnets": [{"device": "", "loads": []}]}) == ()
    assert draw("none", matrix_of(made(0, 0))) == ""
