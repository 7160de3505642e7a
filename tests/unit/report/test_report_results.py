"""results.json of every verb: one head, and what docs/results.schema.json says."""

import json
from pathlib import Path

import jsonschema
import pytest
from tests.report import gate_runs, runs
from tests.tables import cases

from rdmaprov.apply.events import Change, RolePlan, Survey
from rdmaprov.apply.results import NodeResult, role_states
from rdmaprov.exit_codes import ExitCode
from rdmaprov.runs.groups import subject

DOCS = Path(__file__).parents[3] / "docs"
VALIDATOR = jsonschema.Draft202012Validator(json.loads((DOCS / "results.schema.json").read_text()))
RUNS = {
    "validate": runs.validated(4),
    "validate, passing": runs.validated(2, bad=False),
    "apply": runs.applied(4),
    "plan": runs.applied(4, "plan"),
    "plan, unchanged": runs.applied(2, "plan", bad=False),
    "accept": gate_runs.accepted(3),
    "accept, passing": gate_runs.accepted(3, bad=False),
    "accept, gloo": gate_runs.accepted(3, nccl=False),
}


@pytest.mark.parametrize("name", RUNS)
def test_result_is_as_the_schema_says(name):
    data = RUNS[name]
    VALIDATOR.validate(data)
    assert data["verb"] == name.partition(",")[0]
    assert ExitCode[data["verdict"].upper()] == data["exit_code"]
    assert list(data["nodes"]) == list(runs.names(len(data["nodes"])))


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize(
    "wrong",
    [{"surprise": 1}, {"schema": 2}, {"verdict": "fine"}, {"verb": "check"}, {"nodes": {"n": {}}}],
)
def test_schema_refuses_what_it_does_not_know(name, wrong):
    assert not VALIDATOR.is_valid({**RUNS[name], **wrong})


def test_verbs_are_not_mixed_up():
    assert not VALIDATOR.is_valid({**RUNS["validate"], "verb": "apply"})
    assert not VALIDATOR.is_valid({**RUNS["apply"], "verb": "accept"})


MTU = RolePlan((Change("running", "ens1", "MTU", "1500", "9000"),))
SURVEY = Survey({"fabric": RolePlan(), "mtu": MTU, "nccl": RolePlan(waits="x")}, ("mtu", "nccl"))
WITHOUT_RAIL = Survey(SURVEY.roles, problems=("fabric: no rail",))
STARTED = {"roles_started": ("mtu",)}


@pytest.mark.parametrize(
    ("node", "states"),
    [
        ({"before": None}, []),
        ({}, ["unchanged", "pending", "waiting"]),
        ({"running": "mtu"}, ["unchanged", "half_done", "waiting"]),
        (
            STARTED | {"failed": "mtu: Set it", "problem": "disk"},
            ["unchanged", "failed", "waiting"],
        ),
        (STARTED | {"unreachable": True}, ["unchanged", "half_done", "waiting"]),
        (
            {"after": Survey(), "roles_started": ("mtu", "nccl"), "changes": {"mtu": MTU.changes}},
            ["unchanged", "changed", "unchanged"],
        ),
        (
            STARTED | {"after": SURVEY, "changes": {"mtu": MTU.changes}},
            ["unchanged", "half_done", "waiting"],
        ),
        (
            {"before": WITHOUT_RAIL, "failed": "Read what the node is"},
            ["failed", "unchanged", "unchanged"],
        ),
    ],
)
def test_role_s_state_is_what_became_of_it(node, states):
    assert role_states(NodeResult("n", **{"before": SURVEY, **node})) == dict(
        zip(("fabric", "mtu", "nccl"), states, strict=False)
    )


@pytest.mark.parametrize(("test", "name"), cases(__file__, "subject_is_the_file_s"))
def test_subject_is_the_file_s(test, name):
    assert subject(test) == name


def test_validate_counts_by_subject_and_node():
    data = RUNS["validate"]
    assert data["nodes"]["gpu1"]["subjects"]["mtu"] == {"failed": 8, "passed": 8}
    assert data["nodes"]["gpu2"]["subjects"]["nccl"] == {"error": 1}
    assert data["fleet"] == {"uniformity": {"passed": 1}}
    for node in data["nodes"].values():
        for outcome in ("passed", "failed", "error", "skipped"):
            counts = [found.get(outcome, 0) for found in node["subjects"].values()]
            assert node[outcome] == sum(counts)


def test_docs_name_the_schema():
    assert "(results.schema.json)" in (DOCS / "report.md").read_text()
