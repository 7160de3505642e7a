"""A run that is resumed: which stages are not done again, and which files it refuses."""

from __future__ import annotations

import json

import pytest
from tests.unit.helpers.gate_sites import made_site

from rdmaprov.acceptance import stage_report as stages
from rdmaprov.acceptance.options import Options
from rdmaprov.acceptance.stage_report import StageReport
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
