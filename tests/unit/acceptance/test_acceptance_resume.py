"""A run that is resumed: which stages are not done again, and which files it refuses."""

from __future__ import annotations

import json

import pytest
from tests.unit.helpers.live_ranks import made_site

from rdmaprov.acceptance import stage_report as stages
from rdmaprov.acceptance.options import Options, parse_duration
from rdmaprov.acceptance.stage_report import StageReport, leave_out, parse_stages
from rdmaprov.acceptance.stages import resume
from rdmaprov.errors import UsageError
from rdmaprov.finding.finding import Finding


@pytest.fixture
def site(tmp_path):
    return made_site(tmp_path)


def keep(runs, name, same, reports, results=None):
    (runs / name).mkdir(parents=True)
    (runs / name / resume.FILE).write_text(resume.as_text(same, reports))
    if results is not None:
        (runs / name / "results.json").write_text(json.dumps(results))
    return runs / name


def test_an_interrupted_run_gives_its_whole_stages_again(tmp_path):
    site = tmp_path / "site"
    same = resume.identity(site, ("n1", "n2"), Options(limit_s=5))
    report = StageReport(
        "host", "said", 3.25, False, [Finding("rail.slow", "w", "r", "n1", 2)], ["note"]
    )
    report.left_out, report.intra_node_gb_s = {"n1": "why"}, 455.5
    report.detail = {"names": ["n1", "n2"], "rows": [[0, 1, 0, 0, 48.5, 1.0, 2.1, ""]]}
    run = keep(tmp_path / "runs", "20260101-000000-accept", same, [report])
    assert resume.find_run(same, tmp_path / "runs") == run
    again = resume.read_stages(run, resume.identity(site, ("n1", "n2"), Options()))["host"]
    assert (again.findings, again.left_out, again.notes) == (
        report.findings,
        report.left_out,
        report.notes,
    )
    assert (again.text, again.intra_node_gb_s) == (report.text, 455.5)
    assert again.detail == report.detail


def test_a_run_of_others_or_one_that_ended_is_not_resumed(tmp_path):
    runs, site = tmp_path / "runs", tmp_path / "site"
    same = resume.identity(site, ("n1", "n2"), Options())
    other = resume.identity(site, ("n1", "n3"), Options())
    keep(runs, "20260101-000000-accept", same, [], {"interrupted": False})
    run = keep(runs, "20260102-000000-accept", other, [])
    assert resume.find_run(same, runs) is None
    with pytest.raises(UsageError, match="other nodes or options"):
        resume.read_stages(run, same)
    with pytest.raises(UsageError, match="no stages to resume"):
        resume.read_stages(runs / "none", same)


@pytest.mark.parametrize("stage", [{}, {"name": "x", "state": "passed"}, [], "x"])
def test_a_file_that_somebody_changed_is_refused(tmp_path, stage):
    same = resume.identity(tmp_path, ("n1", "n2"), Options())
    run = keep(tmp_path / "runs", "20260101-000000-accept", same, [])
    (run / resume.FILE).write_text(json.dumps({**same, "stages": [stage]}))
    with pytest.raises(UsageError, match=resume.FILE):
        resume.read_stages(run, same)


def test_a_stage_is_the_same_after_it_was_kept():
    report = StageReport("host", "said")
    assert stages.stage_from(stages.stage_to_keep(report)) == report


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
    assert parse_stages("") == ("state", "preflight", "gpu", "host", "pairs", "groups", "fleet")
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
