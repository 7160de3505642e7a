"""The stage training: its numbers, its floor, its findings, and its part of the page."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest
from bench.training import last_line, row
from tests.madeup.accept import accept
from tests.madeup.shape import usual_shape
from tests.madeup.training_trials import judge
from tests.unit.helpers.gate_sites import made_site
from tests.unit.helpers.training_stages import AT, ROOT, STAGES, of_gloo, stage

from rdmaprov.acceptance.stage_report import stage_from, stage_to_keep
from rdmaprov.report import training as pages

SCHEMA = json.loads((ROOT / "docs/results.schema.json").read_text(encoding="utf-8"))


def training_schema():
    return {**SCHEMA["$defs"]["accepted"]["properties"]["training"], "$defs": SCHEMA["$defs"]}


def test_cpus_have_numbers_and_no_floor(tmp_path):
    times, site = of_gloo(tmp_path)
    report = stage(times, site)
    assert (report.state, report.findings) == ("passed", [])
    assert any("no floor" in note for note in report.notes)
    jsonschema.validate(report.detail, training_schema())
    assert report.detail["least_efficiency"] is None
    assert stage_from(json.loads(json.dumps(stage_to_keep(report)))).detail == report.detail


@pytest.mark.parametrize(("line", "least"), [("", 0.9), ("0.95", 0.95), ("0", None)])
def test_site_sets_its_own_efficiency(tmp_path, line, least):
    extra = f"fabric_training_efficiency: {line}\n" if line else ""
    times, _ = of_gloo(tmp_path / "ranks")
    report = stage(times, replace(made_site(tmp_path / "own", 4, extra=extra), backend="nccl"))
    assert report.detail["least_efficiency"] == least


def test_ranks_that_report_no_step_leave_it_unknown(tmp_path):
    times, site = of_gloo(tmp_path)
    times.ran.events[:] = [e for e in times.ran.events if e["event"] != "step" or e["rank"]]
    report = stage(times, site)
    assert report.state == "unknown"
    assert "not verified" in report.findings[0].what


def test_a_torch_without_fsdp2_is_said_and_ddp_counts(tmp_path):
    times, site = of_gloo(tmp_path)
    fsdp = {task.number for task in times.plan.tasks("train", strategy="fsdp")}
    lacks = {"what": "fully_shard"}
    times.ran.events[:] = [
        {**{k: e[k] for k in AT}, "event": "lacks", **lacks}
        if e["event"] == "step" and e["task"] in fsdp
        else e
        for e in times.ran.events
    ]
    report = stage(times, site)
    assert report.state == "passed"
    assert any("DDP alone" in note for note in report.notes)
    assert {point["strategy"] for point in report.detail["points"]} == {"ddp"}


@pytest.fixture(scope="module")
def healthy():
    return accept(usual_shape(4), None, 1, stages=STAGES)


def test_a_healthy_fleet_has_no_finding_and_its_numbers_are_its_own(healthy):
    assert healthy.result.findings == []
    trial = judge(None, healthy)
    assert (trial.efficiency, trial.knee, trial.named) == (True, True, True)
    assert "100% | 100% | 100%" in row(None, [trial])
    assert last_line([trial]).startswith("1 fleets: efficiency 1.000")
    jsonschema.validate(
        json.loads(json.dumps(healthy.result.details["training"])), training_schema()
    )


def test_the_page_has_tokens_and_a_breakdown_as_tables(healthy):
    data = {"training": json.loads(json.dumps(healthy.result.details["training"]))}
    curve, steps = pages.plots(data)
    assert "The floor is 90 %" in curve.note
    assert [cells[0] for cells in curve.table.rows] == ["1", "1", "2", "2", "4", "4"]
    assert steps.table.head[:6] == ("nodes", "strategy", "data", "forward", "backward", "optimizer")
    assert all(cell.endswith(" ms") for cell in steps.table.rows[-1][2:])
    assert list(pages.plots({})) == []


def test_rails_of_gloo_are_told_apart_on_the_page(tmp_path):
    times, site = of_gloo(tmp_path)
    curve, _ = pages.plots({"training": stage(times, site).detail})
    assert {cells[1] for cells in curve.table.rows} >= {"DDP, rail 0", "DDP, rail 1"}
    assert "no floor" in curve.note
