"""The page's plots: shares, maps of pairs, outliers, ranks, and pictures in the page's colours."""

from __future__ import annotations

import math

import pytest
from tests.report import gate_runs, runs

from rdmaprov.report import of_accept, pairs, ranks
from rdmaprov.report.drawing import BAD, draw_svg, short
from rdmaprov.report.model import Tone


def test_map_of_the_first_node_has_a_row_for_each_direction():
    rates = {("p", "a", "b"): 4.0, ("p", "b", "a"): 3.0, ("p", "a", "c"): 2.0}
    found = pairs.heat_map(rates, [("p", "a", "c")], ["a", "b", "c"])
    assert (found.rows, found.columns) == (("p, from a", "p, to a"), ("b", "c"))
    assert (dict(found.values), set(found.marked)) == (
        {(0, 0): 4.0, (1, 0): 3.0, (0, 1): 2.0},
        {(0, 1)},
    )


def test_map_of_all_pairs_has_the_slowest_plane_and_marks_what_stands_out():
    names = runs.names(6)
    rates = {(p, a, b): 40.0 for p in "xy" for a in names for b in names if a != b}
    rates["y", "gpu2", "gpu5"] = 4.0
    slow = pairs.slowest(rates)
    found = pairs.heat_map(rates, slow, names)
    assert slow == [("y", "gpu2", "gpu5")]
    assert (found.values[1, 4], set(found.marked)) == (4.0, {(1, 4)})


def test_map_of_very_many_nodes_shares_cells_and_hides_no_slow_one():
    names = runs.names(600)
    rates = {("p", a, b): 40.0 for a in names[::30] for b in names if a != b}
    rates["p", names[30], names[599]] = 1.0
    found = pairs.heat_map(rates, pairs.slowest(rates), names)
    assert len(found.rows) == 200
    assert min(found.values.values()) == found.values[10, 199] == 1.0
    assert found.marked == {(10, 199)}


def test_outliers_are_said_marked_and_first_in_the_table():
    plot = pairs.plot(gate_runs.accepted(6, pairs=True))
    assert plot is not None
    assert "10 of 30 directions are outliers; most often: gpu4 (10)" in plot.words
    assert [row[-1] for row in plot.table.rows] == ["outlier"] * 10 + [""] * 20
    fine = pairs.plot(gate_runs.accepted(6, bad=False, pairs=True))
    assert fine is not None
    assert fine.words.startswith("0 of 30")
    assert (plot.svg or "").count("<use") > (fine.svg or "").count("<use")


def test_late_ranks_are_named_with_their_node():
    plot = ranks.plot(gate_runs.accepted(4))
    assert plot is not None
    assert "gpu3 (rank 16-23)" in plot.words
    assert [row[-1] for row in plot.table.rows[:9]] == ["straggler"] * 8 + [""]


def test_run_that_ended_before_it_measured_has_a_page_without_plots():
    data = gate_runs.accepted(2) | {
        "planes": [],
        "rails": [],
        "floor": None,
        "world_size": 0,
        "samples": None,
    }
    view = of_accept.view(data)
    assert view.plots == ()
    assert {cell.tone for row in view.grid.rows for cell in row.cells} <= {
        Tone.BAD,
        Tone.UNKNOWN,
        Tone.IDLE,
    }


def test_picture_takes_colours_from_the_page_and_names_as_they_are():
    name = 'a<b> & $x_1$ id="m1" #010104'

    def draw(axes):
        axes.plot([1, 2], [1, math.nan], color=BAD)
        axes.set_title(name)

    svg = draw_svg("one", (3, 2), draw)
    assert 'a&lt;b&gt; &amp; $x_1$ id="m1" #010104</text>' in svg
    assert "stroke: var(--bad)" in svg
    assert "<style" not in svg
    assert draw_svg("one", (3, 2), draw) == svg
    assert 'id="figure' not in svg


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gpu07", "gpu07"),
        ("gpu07.cluster.example", "gpu07"),
        ("192.0.2.7", "192.0.2.7"),
        ("a-node-with-quite-a-long-name-17", "a-node-wi…ng-name-17"),
    ],
)
def test_name_fits_into_a_picture(name, text):
    assert short(name) == text
