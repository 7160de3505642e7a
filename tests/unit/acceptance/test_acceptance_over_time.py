"""What the counters over time add to the result of a run."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from tests.unit.helpers import made_samples
from tests.unit.helpers.accept_runs import healthy, job

from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks import sampling
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.stages import over_time
from rdmaprov.probe.connection import Answer
from rdmaprov.probe.errors import NoAnswer

RATES = [0.0] * 5 + [45.0] * 60 + [0.0] * 5
RAILS = 4


@pytest.fixture
def result():
    made = job(4)
    sampled = dict.fromkeys(made.nodes, ({"netdev": "", "pci": ""},) * RAILS)
    ran = healthy(replace(made, sampled=sampled))
    for node in ran.nodes.values():
        node.samples = made_samples.pack(made_samples.rails(*[RATES] * RAILS))
    return GateResult(made.nodes, "nccl", ran=ran)


def site(result, backend="nccl"):
    nodes = tuple(SimpleNamespace(name=name, compute_rails=range(RAILS)) for name in result.nodes)
    return cast("GateSite", SimpleNamespace(nodes=nodes, backend=backend))


def judge(result, backend="nccl"):
    kept = {}
    over_time.judge_samples(
        result, site(result, backend), lambda name, text: kept.update({name: text})
    )
    return kept


def test_healthy_run_has_rates_and_no_findings(result):
    kept = judge(result)
    assert (result.findings, result.notes) == ([], [])
    lines = [json.loads(line) for line in kept["samples.jsonl"].splitlines()]
    assert [line["node"] for line in lines] == list(result.nodes)
    assert max(rate or 0 for rate in lines[0]["sent_gb_s"][2]) == pytest.approx(45)
    data = result.as_data()["samples"]
    assert len(data["rails"]) == 4 * RAILS
    assert data["missing"] == []


def test_stopped_rail_is_a_finding_with_nccl_alone(result):
    rates = [*RATES[:20], *[0.0] * 12, *RATES[32:]]
    result.ran.nodes["n1"].samples = made_samples.pack(
        made_samples.rails(RATES, RATES, rates, RATES)
    )
    judge(result)
    assert [(each.node, each.rail, each.proven) for each in result.findings] == [("n1", 2, True)]
    result.findings.clear()
    judge(result, "gloo")  # it tests one rail after another
    assert result.findings == []


def test_odd_samples_are_a_note_and_no_finding(result):
    result.ran.nodes["n2"].samples = b"odd"
    judge(result)
    assert result.findings == []
    assert result.notes == ["no counters over time of n2: its samples are no gzip file"]
    assert result.as_data()["samples"]["missing"] == ["n2"]


def test_run_without_any_samples_says_so(result):
    for node in result.ran.nodes.values():
        node.samples = b""
    assert judge(result) == {}
    assert result.notes == ["no counters over time of n0, n1, n2, n3: it returned no samples"]
    assert result.as_data()["samples"] is None


def test_job_that_samples_nothing_adds_nothing(result):
    result.ran.job = replace(result.ran.job, sampled={})
    judge(result)
    assert (result.notes, result.samples) == ([], None)


def test_soak_that_slows_down_is_a_finding(result):
    rates = [0.0] * 5 + [45.0] * 60 + [38.0] * 60 + [0.0] * 5
    for node in result.ran.nodes.values():
        node.samples = made_samples.pack(made_samples.rails(*[rates] * RAILS))
    one_plane = replace(result.ran.job, planes=result.ran.job.planes[:1])
    result.ran.job = one_plane
    assert [each.level for each in over_time.soak_findings(site(result), result.ran)] == ["fleet"]
    judge(result)  # in a sweep, sizes differ
    assert result.findings == []


@pytest.mark.parametrize(
    "answer",
    [Answer(1, "", "no such file"), Answer(0, "no base64!", ""), NoAnswer("n0: no answer", "x")],
)
def test_node_without_a_file_has_no_samples(answer):
    assert sampling.samples_from(answer) == b""


def test_few_files_are_fetched_at_once():
    asked = list(sampling.fetch_commands({f"n{number}": "/run/x" for number in range(130)}))
    assert [len(each) for each in asked] == [64, 64, 2]
