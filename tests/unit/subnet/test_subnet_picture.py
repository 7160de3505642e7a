"""The picture of a fabric's loads: what is marked, what is merged, what reaches the page raw."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from tests.unit.helpers.subnet_texts import Texts

from rdmaprov.report.of_subnet import MOST_COLUMNS, MOST_ROWS, draw, matrix_of, plots
from rdmaprov.site_subnet.result import level_loads


@pytest.fixture
def texts(tmp_path):
    return Texts(tmp_path)


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
