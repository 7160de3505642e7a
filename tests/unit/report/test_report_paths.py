"""The plot of single paths: blocks, and a table with the worst paths first."""

from __future__ import annotations

import json
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
from rdmaprov.report import of_accept, paths
from rdmaprov.report.paths import MOST_NODES, blocks_of
from rdmaprov.report.write import html

SCHEMA = Path(__file__).parents[3] / "docs/results.schema.json"


def measured(count, rails=2, bad="gpu04", per_leaf=4, error=""):
    """Return the paths of a fleet in which a node's rail 1 is slow."""
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


def test_few_nodes_are_shown_each_and_many_by_leaf():
    nodes = list(runs.names(MOST_NODES))
    assert list(blocks_of(nodes, {})) == nodes
    many = list(runs.names(512))
    leaf_of = {node: f"leaf{number // 32}" for number, node in enumerate(many)}
    assert list(blocks_of(many, leaf_of)) == [f"leaf{number}" for number in range(16)]
    parts = blocks_of(many, {})
    assert len(parts) == MOST_NODES
    assert [node for part in parts.values() for node in part] == many


def test_the_worst_paths_come_first_with_their_numbers():
    (first,) = plots_of(16)
    assert first.words.startswith("192 paths, 12 bad, 0 unknown; most often: gpu04 (12)")
    assert {"gpu04"} & set(first.table.rows[0][:2])
    rail, rate, share, latency, said = first.table.rows[0][2:]
    assert (rail, share, latency, said) == ("rail 1", "50 %", "-", "")
    assert rate.endswith("GB/s")
    assert len(first.table.rows) == 12


def test_many_nodes_are_shown_by_block_with_the_worst_paths():
    (only,) = plots_of(64, per_leaf=16, bad="gpu04")
    assert "leaf0" in only.svg
    assert {"gpu04"} & set(only.table.rows[0][:2])


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
    """Return results of a gate with paths."""
    return {**gate_runs.accepted(16), "paths": runs.plain(measured(16))}


def test_page_shows_paths_first(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # pictures take seconds
    assert "Bandwidth of paths, by rail" in html(results)
    assert of_accept.view(results).plots[0].name == "paths"


def test_results_with_paths_are_as_the_schema_says(results):
    jsonschema.validate(results, json.loads(SCHEMA.read_text()))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(
            {**results, "paths": {**results["paths"], "rows": [[0, 1]]}},
            json.loads(SCHEMA.read_text()),
        )
