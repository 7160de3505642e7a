"""What a certificate takes from a gate over gloo: each rail has rows, and no floor applies."""

import pytest
from tests.unit.helpers.accept_runs import healthy, job

from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.stage_report import StageReport
from rdmaprov.boundary import RIGHT, text
from rdmaprov.certificate import of_gate
from rdmaprov.certificate.recompute import verdict_objections
from rdmaprov.exit_codes import ExitCode


@pytest.fixture
def result():
    ran = healthy(job(count=4, rails=2))
    stages = [StageReport(name) for name in ("state", "preflight", "host", "fleet")]
    return GateResult(ran.job.nodes, "gloo", ran=ran, stages=stages)


def predicate_of(result):
    measured = of_gate.measured_by_node(result)
    nodes = {name: {"ranks": measured[name]} for name in result.nodes}
    return {**of_gate.parts_of(result), "nodes": nodes}


def test_a_gate_over_gloo_has_a_row_of_each_rail_and_no_floor(result):
    assert result.exit_code() is ExitCode.OK
    predicate = predicate_of(result)
    assert {row["plane"] for row in predicate["rows"]} == {"rail 0", "rail 1"}
    assert predicate["floors"] == []
    assert list(verdict_objections(predicate)) == []


def test_a_rank_that_is_slower_on_one_rail_is_not_hidden(result):
    predicate = predicate_of(result)
    predicate["nodes"]["n2"]["ranks"][1]["median_us"] *= 2
    [found] = verdict_objections(predicate)
    assert found.what.startswith("rail 1: the time of its largest all-reduce")


def test_words_of_a_node_in_a_note_are_plain(result):
    result.notes.append("n1 says \x1b[2J\u202e" + "x" * 9000)
    [note] = of_gate.parts_of(result)["notes"]
    assert text(most=4096)(note) is RIGHT
    assert note.startswith("n1 says \\x1b[2J\\u202e")
