"""The picture of a fabric's loads: what is red, what is merged, what reaches the page raw."""

from __future__ import annotations

import re
from dataclasses import asdict
from itertools import pairwise

import pytest
from tests.unit.helpers.subnet_texts import DISCOVERY, Texts

from rdmaprov.report.subnet_matrix import MOST_COLUMNS, MOST_ROWS, matrix_of
from rdmaprov.report.subnet_picture import draw, plots
from rdmaprov.subnet.link_loads import level_loads


@pytest.fixture
def texts(tmp_path):
    return Texts(tmp_path)


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


def test_even_routes_have_no_red_cell_and_fair_shares(texts):
    matrix = matrix_of(loads_of(texts))
    assert matrix.above == ("spine-1", "spine-2", "spine-3", "spine-4")
    assert matrix.below == ("leaf-p1-r0", "leaf-p1-r1", "leaf-p2-r0", "leaf-p2-r1")
    assert {load for row in matrix.loads for load in row} == {1}
    assert matrix.shares == (0.25,) * 4
    assert (matrix.uneven(), matrix.lacks) == ([], frozenset())
    assert "var(--bad)" not in draw(matrix)


def test_routes_over_one_cable_are_red_there_and_pale_elsewhere(texts):
    texts.route(lambda switch, _, port, __: 9 if "leaf-p1-r0" in switch and port > 8 else port)
    matrix = matrix_of(loads_of(texts))
    assert matrix.uneven() == [(0, 0, 8)]
    assert [row[0] for row in matrix.loads] == [8, 0, 0, 0]
    assert draw(matrix).count("var(--bad)") == 2  # the cell, and the spine's share
    plot = plots({"subnets": [{"device": "", "loads": [loads_of(texts)]}]})[0]
    assert "leaf-p1-r0 to spine-1 (8.0)" in plot.words
    assert plot.table.rows[0][:2] == ("spine-1", "8")


def test_pair_with_fewer_cables_is_marked(texts):
    end = r"SW .* 9 0x\w+ 4x HDR - SW .*'leaf-p1-r0' - 'spine-1' \)"
    other = r"SW .* 4x HDR - SW .* 9 0x\w+ \( 'spine-1' - 'leaf-p1-r0' \)"
    for line in (end, other):
        texts.edit(DISCOVERY, f"^{line}\n", "")
    assert matrix_of(loads_of(texts)).lacks == {(0, 0)}


def test_pods_with_spines_of_their_own_lack_no_cables():
    loads = made(4, 4)
    for row in range(4):
        for column in range(4):
            if row // 2 != column // 2:
                loads["cables"][row][column] = 0
    assert matrix_of(loads).lacks == frozenset()
    loads["cables"] = [[2 * count for count in own] for own in loads["cables"]]
    loads["cables"][0][1] = 1
    assert matrix_of(loads).lacks == {(0, 1)}


def test_large_fabric_is_merged_into_cells_that_show_the_worst():
    matrix = matrix_of(made(100, 300, uneven=[299]))
    assert len(matrix.above) <= MOST_ROWS
    assert len(matrix.below) <= MOST_COLUMNS
    assert matrix.uneven() == [(0, len(matrix.below) - 1, 100)]
    assert abs(sum(matrix.shares) - 1) < 1e-9
    assert len(draw(matrix)) < 1_500_000


def test_fabric_of_512_nodes_with_8_rails_has_a_cell_for_each_pair():
    matrix = matrix_of(made(32, 128))
    assert (matrix.rows_each, matrix.columns_each) == (1, 1)
    svg = draw(matrix)
    assert svg.count("<rect") == 32 * 128 + 32
    heights = [float(size) for size in re.findall(r'height="([\d.]+)"', svg)]
    assert min(heights) >= 2


def test_names_are_text_and_no_markup():
    loads = made(2, 2)
    loads["below"][0] = "<script>&"
    (plot,) = plots({"subnets": [{"device": "", "loads": [loads]}]})
    assert "<script>" not in plot.svg
    assert "&lt;script&gt;&amp;" in plot.svg


def test_fabric_without_spines_has_no_picture():
    assert plots({"subnets": [{"device": "", "loads": []}]}) == ()
    assert draw(matrix_of(made(0, 0))) == ""


@pytest.mark.parametrize("below", [8, 30, 64, 128])
def test_names_of_columns_do_not_overlap(below):
    picture = draw(matrix_of(made(4, below)))
    places = [float(each) for each in re.findall(r"translate\(([\d.]+) ", picture)]
    assert len(places) > 7
    assert all(right - left > 15.9 for left, right in pairwise(places))
