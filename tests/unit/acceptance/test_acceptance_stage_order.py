"""Stages: which are chosen, in which order, and what a finding or a report is made of."""

from __future__ import annotations

import pytest

from rdmaprov.acceptance.options import Options, parse_duration
from rdmaprov.acceptance.stage_report import StageReport, leave_out, parse_stages
from rdmaprov.errors import UsageError
from rdmaprov.finding.finding import Finding


def test_a_finding_takes_its_node_out_and_of_a_path_one_end():
    names = tuple(f"n{n}" for n in range(8))
    found = [
        Finding("rail.slow", "slow", "x", "n3"),
        Finding("rdma.failed", "path", "x", nodes=("n3", "n4")),
        Finding("rdma.failed", "path", "x", nodes=("n5", "n6")),
        Finding("packets.lost", "leaf", "x", level="leaf", nodes=("n0", "n1")),
        Finding("run.failed", "all", "x", level="fleet", nodes=names),
    ]
    assert set(leave_out(found, names)) == {"n3", "n6", "n0", "n1"}
    assert (
        leave_out([Finding("packets.lost", "half", "x", level="leaf", nodes=names[:4])], names)
        == {}
    )


def test_a_report_is_one_line_and_a_state():
    report = StageReport("host", "it did")
    assert (report.text, report.state) == ("host: it did", "passed")
    report.findings.append(Finding("rail.slow", "x", "y", "n1", proven=False))
    assert report.state == "unknown"
    report.findings.append(Finding("rail.slow", "x", "y", "n1"))
    assert (report.state, report.as_data()["findings"]) == ("failed", 2)


def test_stages_are_chosen_in_their_order():
    assert parse_stages("") == ("state", "preflight", "host", "pairs", "groups", "fleet")
    assert parse_stages("pairs, host") == ("state", "preflight", "host", "pairs")
    assert Options(soak_s=60).wanted[-1] == "soak"


@pytest.mark.parametrize("text", ["soak", "x", "host,,pairs"])
def test_a_stage_that_is_none(text):
    with pytest.raises(UsageError, match="--stages"):
        parse_stages(text)


@pytest.mark.parametrize(("text", "seconds"), [("", 0), ("90", 90), ("30m", 1800), ("2h", 7200)])
def test_a_soak_has_a_time(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["0", "-1", "1d", "x", "169h", "1.5h"])
def test_a_soak_that_is_no_time(text):
    with pytest.raises(UsageError, match="--soak"):
        parse_duration(text)
