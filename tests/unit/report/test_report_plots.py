"""The page's parts of an acceptance: outliers, single paths, and pictures."""

import json
import math
import random
import sys
from pathlib import Path

import jsonschema
import pytest
from tests.report import gate_runs, runs

from rdmaprov.acceptance.stages.pairs import paths_as_data
from rdmaprov.perftest.matchings import few_matchings
from rdmaprov.perftest.matrix import PathMatrix
from rdmaprov.perftest.model import PathResult
from rdmaprov.report import of_accept, pairs, paths
from rdmaprov.report.drawing import BAD, draw_svg
from rdmaprov.report.model import Tone
from rdmaprov.report.write import html


def test_outliers_are_said_marked_and_first_in_the_table():
    plot = pairs.plot(gate_runs.accepted(6, pairs=True))
    assert plot is not None
    assert "10 of 30 directions are outliers; most often: gpu4 (10)" in plot.words
    assert [row[-1] for row in plot.table.rows] == ["outlier"] * 10 + [""] * 20
    fine = pairs.plot(gate_runs.accepted(6, bad=False, pairs=True))
    assert fine is not None
    assert fine.words.startswith("0 of 30")


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


SCHEMA = Path(__file__).parents[3] / "docs/results.schema.json"


def measured(count, rails=2, bad="gpu04", per_leaf=4, error=""):
    nodes = list(runs.names(count))
    chance = random.Random(1)
    leaf_of = {node: f"leaf{number // per_leaf}" for number, node in enumerate(nodes)}
    matrix, numbers = PathMatrix(leaf_of, lambda _path: 50.0), tuple(range(rails))
    for matching in few_matchings(nodes, numbers, leaf_of):
        results = {}
        for test in matching.tests(numbers):
            slow = test.sender.rail == 1 and bad in (test.sender.node, test.receiver.node)
            rate = 49 * (0.5 if slow else 1) * (1 - 0.01 * chance.random())
            results[test] = (
                PathResult(test, error=error) if slow and error else PathResult(test, rate)
            )
        matrix.add(results)
    return paths_as_data(nodes, matrix, PathMatrix(leaf_of), "Each must be fast.")


def plots_of(count, **what):
    return list(paths.plots({"paths": measured(count, **what)}))


def test_a_run_without_paths_has_no_plots():
    assert list(paths.plots({})) == []
    assert list(paths.plots({"paths": None})) == []


def test_the_worst_paths_come_first_with_their_numbers():
    (first,) = plots_of(16)
    assert first.words.startswith("192 paths, 12 bad, 0 unknown; most often: gpu04 (12)")
    assert {"gpu04"} & set(first.table.rows[0][:2])
    rail, rate, share, latency, said = first.table.rows[0][2:]
    assert (rail, share, latency, said) == ("rail 1", "50 %", "-", "")
    assert rate.endswith("GB/s")
    assert len(first.table.rows) == 12


@pytest.mark.parametrize(("error", "share"), [("completion", "0 %"), ("no-perftest", "-")])
def test_a_path_without_data_is_bad_or_unknown_and_says_why(error, share):
    first = plots_of(16, error=error)[0]
    lines = [row for row in first.table.rows if row[-1] == error]
    assert len(lines) == 12
    assert {row[4] for row in lines} == {share}
    bad, unknown = (12, 0) if share == "0 %" else (0, 12)
    assert f"{bad} bad, {unknown} unknown" in first.words


@pytest.fixture(scope="module")
def results():
    return {**gate_runs.accepted(16), "paths": runs.plain(measured(16))}


def test_page_shows_paths_first(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # pictures take seconds
    assert "Bandwidth of paths" in html(results)
    assert of_accept.view(results).plots[0].name == "paths"


def test_results_with_paths_are_as_the_schema_says(results):
    jsonschema.validate(results, json.loads(SCHEMA.read_text()))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(
            {**results, "paths": {**results["paths"], "rows": [[0, 1]]}},
            json.loads(SCHEMA.read_text()),
        )
