"""The score of the diagnosis counts what it says that it counts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from bench.diagnosis import main
from click.testing import CliRunner
from tests.madeup.accept import Acceptance
from tests.madeup.faults import Truth, kinds
from tests.madeup.trials import judge, least_share, total

from rdmaprov.finding.finding import Finding

NAMES = tuple(f"n{number}" for number in range(8))
LEAF = (0, 1, 2, 3)


def trial(truths, findings, verdict="refused"):
    fleet = SimpleNamespace(shape=SimpleNamespace(names=NAMES), truths=truths, seconds=1.0)
    result = SimpleNamespace(verdict=verdict, findings=findings)
    return judge("kind", cast("Acceptance", SimpleNamespace(fleet=fleet, result=result, rounds=3)))


def finding(level, *nodes, rail=None, proven=True):
    one = nodes[0] if len(nodes) == 1 else ""
    return Finding("part.slow", "bad", "Repair it", one, rail, proven, level=level, nodes=nodes)


@pytest.mark.parametrize(
    ("truths", "found", "named"),
    [
        ((Truth("rail", (1,), 3),), finding("rail", "n1", rail=3), (True, True, 0)),
        ((Truth("rail", (1,), 3),), finding("rail", "n1", rail=2), (True, False, 0)),
        ((Truth("rail", (1,), 3),), finding("node", "n1"), (True, False, 0)),
        ((Truth("rail", (1,), 3),), finding("rail", "n2", rail=3), (False, False, 1)),
        ((Truth("node", (1,)), Truth("rank", (1,))), finding("rank", "n1"), (True, True, 0)),
        ((Truth("pair", (1, 2), 3),), finding("pair", "n2", "n1"), (True, True, 0)),
        ((Truth("pair", (1, 2), 3),), finding("pair", "n1", "n4"), (True, False, 1)),
        ((Truth("leaf", LEAF, 3),), finding("leaf", "n0", "n1", "n2", "n3"), (True, True, 0)),
        ((Truth("leaf", LEAF, 3),), finding("leaf", "n0", "n1", "n2"), (True, False, 0)),
        ((Truth("fleet"),), finding("fleet", *NAMES), (True, True, 0)),
        ((Truth("fleet"),), finding("node", "n1"), (True, False, 1)),
        ((Truth("node", (1,)),), finding("fleet", *NAMES), (True, False, 1)),
        ((Truth("node", (1,)),), finding("node", "n2", proven=False), (False, False, 0)),
    ],
)
def test_a_finding_is_right_if_it_names_what_is_at_fault(truths, found, named):
    seen = trial(truths, [found])
    assert (seen.found, seen.named, seen.false) == named


def test_two_faults_at_once_are_named_if_both_are():
    truths = (Truth("rail", (1,), 3), Truth("rail", (2,), 4))
    first, second = finding("rail", "n1", rail=3), finding("rail", "n2", rail=4)
    assert not trial(truths, [first]).named
    assert trial(truths, [first, second]).named


def test_an_accepted_fleet_finds_nothing():
    seen = trial((Truth("node", (1,)),), [finding("node", "n1")], "accepted")
    assert not seen.found


def test_totals_are_shares():
    bad = trial((Truth("node", (1,)),), [finding("node", "n1"), finding("node", "n2")])
    assert total([bad]) == {"recall": 1.0, "found": 1.0, "precision": 0.5}


def test_the_command_prints_a_table_and_the_same_one_again():
    words = ["--nodes", "8", "--trials", "1", "--fault", "rail-down", "--fault", "healthy"]
    first, again = (CliRunner().invoke(main, words) for _ in range(2))
    assert first.exit_code == 0, first.output
    assert "| rail-down | rail | 1 | 100% | 100% | 0.00 |" in first.stdout
    assert "recall 1.000" in first.stdout
    assert again.stdout == first.stdout


def test_a_run_that_was_cut_goes_on_after_the_trials_that_it_kept(tmp_path, monkeypatch):
    file = tmp_path / "kept.jsonl"
    words = ["--nodes", "4", "--fault", "healthy", "--kept", str(file), "--trials"]
    first = CliRunner().invoke(main, [*words, "1"])
    assert first.exit_code == 0, first.output
    ran = []

    def accept(_shape, _kind, seed, _noise):
        ran.append(seed)
        return whole()

    monkeypatch.setattr("tests.madeup.trials.accept", accept)
    with file.open("a", encoding="utf-8") as stream:
        stream.write('{"at": ["healthy", 4, 1')  # cut
    assert CliRunner().invoke(main, [*words, "3"]).exit_code == 0
    assert ran == [1, 2]


def whole():
    fleet = SimpleNamespace(shape=SimpleNamespace(names=NAMES), truths=(), seconds=1.0)
    result = SimpleNamespace(verdict="accepted", findings=[])
    return SimpleNamespace(fleet=fleet, result=result, rounds=3)


@pytest.mark.parametrize(
    ("hits", "count", "least"),  # the exact intervals: 0.025 ** (1 / n) where all hit
    [(1000, 1000, 0.99632), (126, 135, 0.87718), (3, 3, 0.29240), (0, 5, 0.0), (0, 0, 0.0)],
)
def test_the_least_share_is_that_of_clopper_and_pearson(hits, count, least):
    assert least_share(hits, count) == pytest.approx(least, abs=1e-4)


def test_a_kind_that_is_not_there_is_refused():
    done = CliRunner().invoke(main, ["--fault", "nonsense"])
    assert done.exit_code == 2
    assert "not one of healthy" in done.output


def test_the_docs_have_a_line_for_each_kind():
    text = (Path(__file__).parents[3] / "docs" / "diagnosis.md").read_text(encoding="utf-8")
    for kind in kinds(held_out=True):
        name = f"{kind.name} (held out)" if kind.held_out else kind.name
        assert f"| {name} | {kind.level} |" in text
