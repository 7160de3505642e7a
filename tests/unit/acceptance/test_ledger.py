"""What kept runs prove of nodes, and what is measured again."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.madeup.accept import accept_nodes
from tests.madeup.faults import FAULTS, kinds
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.shape import usual_shape

from rdmaprov.acceptance.ledger import KeptProof, proofs_of, read_ledger
from rdmaprov.acceptance.stage_report import USUAL
from rdmaprov.cli.accept_run import document
from rdmaprov.runs.envelope import Head

assert list(kinds(held_out=True))  # they register themselves
EVER = datetime(2026, 1, 1, tzinfo=UTC)
SHAPE = usual_shape(16)
NOW = {"backend": "nccl", "boot_id": "b1", "site_sha256": "d1", "identity": {"rails": []}}
NOW |= {"versions": {"kernel": "6.8"}, "torch": "2.9", "nccl": "2.27"}


class Fleet:
    """A made-up fleet whose racks were accepted, one by one."""

    def __init__(self, kind=None):
        self.fleet = MadeUpFleet(SHAPE, FAULTS[kind] if kind else None, 1)
        self.proofs, self.runs, self.verdicts = {}, [], []
        for rack in range(SHAPE.blocks):
            self.accept(n for at, n in enumerate(SHAPE.names) if SHAPE.block_of(at) == rack)

    def accept(self, names):
        """Run a gate on some nodes; return its results as they are kept."""
        names, run = list(names), f"20261101-1200{len(self.runs):02}-accept"
        done = accept_nodes(self.fleet, names, proofs=self.proofs, stages=USUAL)
        head = Head("accept", Path("site"), None, datetime.now(UTC))
        data = json.loads(json.dumps(document(head, datetime.now(UTC), done.result)))
        self.proofs |= proofs_of(run, data, EVER)
        self.runs.append(run)
        self.verdicts.append(done.result.verdict)
        return data


def taken(data, stage):
    own = next(each for each in data["stages"] if each["name"] == stage)
    return {run: len(nodes) for run, nodes in own.get("taken", {}).items()}


def test_what_is_between_racks_is_found_when_they_are_joined():
    """Each rack is good by itself: the uplinks of its leaf carry nothing then."""
    fleet = Fleet("leaf-uplinks")
    assert fleet.verdicts == ["accepted"] * 4
    data = fleet.accept(SHAPE.names)
    [truth] = fleet.fleet.truths
    bad = [SHAPE.names[node] for node in truth.nodes]
    assert [(e["kind"], e["level"], e["nodes"]) for e in data["findings"]] == [
        ("part.slow", "leaf", bad)
    ]
    assert taken(data, "host") == dict.fromkeys(fleet.runs[:4], 4)


def test_no_proof_becomes_younger():
    """A run that takes names the one that measured, and so do those after it."""
    fleet = Fleet()
    joined = fleet.accept(SHAPE.names)
    assert {each.run for each in fleet.proofs.values()} == {fleet.runs[4]}
    assert fleet.proofs["gpu001"].runs["pairs"] == fleet.runs[0]
    later = proofs_of("20270101-120000-accept", joined, datetime(2026, 12, 1, tzinfo=UTC))
    assert not any(each.runs for each in later.values())
    # What ran together has nothing between it.
    again = fleet.accept(SHAPE.names[:3])
    assert taken(again, "pairs") == {fleet.runs[0]: 3}
    pairs = next(each for each in again["stages"] if each["name"] == "pairs")
    assert (pairs["said"], pairs["numbers"]) == (f"3 nodes proven by {fleet.runs[0]}", [])


@pytest.mark.parametrize("change", ["boot", "part"])
def test_a_node_that_changed_is_measured_again_and_so_is_its_leaf(change):
    fleet = Fleet()
    if change == "boot":
        fleet.fleet.boots[2] += 1
    else:
        fleet.fleet.condition.moved[2, 0] = "9803:9b03:ffff:0000"
    data = fleet.accept(SHAPE.names)
    what = {"boot": "another boot", "part": "other hardware or firmware"}[change]
    assert f"measured again: gpu003: {what} since {fleet.runs[0]}" in data["notes"]
    # Three that are proven are measured beside it; all that is under a leaf goes side by side.
    assert taken(data, "gpu") == dict.fromkeys(fleet.runs[1:4], 4)
    assert taken(data, "pairs") == {}
    assert fleet.verdicts[-1] == "accepted"


@pytest.mark.parametrize("key", NOW)
def test_whatever_a_test_depends_on_voids_it(key):
    proof = KeptProof("r", NOW)
    assert proof.differs(NOW) == ""
    assert proof.differs({**NOW, key: "x"})


@pytest.mark.parametrize("key", ["boot_id", "site_sha256", "identity"])
def test_a_node_that_is_not_known_is_not_taken(key):
    """Older versions did not write them; nothing is equal to nothing."""
    now = {**NOW, key: ""}
    assert KeptProof("r", now).differs(now) == "not described enough in"


# --- the runs that are kept --------------------------------------------------------------------

STAGES = [{"name": "host", "state": "passed", "numbers": [], "left_out": {}}]


def keep(place, hours_ago, verb="accept", **more):
    name = f"{datetime.now() - timedelta(hours=hours_ago):%Y%m%d-%H%M%S}-{verb}"
    node = {"findings": 0, **NOW}
    data = {"schema": 1, "verb": verb, "site": str(place / "site"), "backend": "nccl"}
    data |= {"findings": [], "stages": STAGES, "nodes": {"n1": node, "n2": node}, **more}
    (place / name).mkdir()
    (place / name / "results.json").write_text(json.dumps(data))
    return name


def whys(place, days=30):
    found = read_ledger(place / "site", ["n1", "n2", "n3"], days, place)
    return {name: (each.run, each.why, dict(each.runs)) for name, each in found.items()}


def test_the_newest_word_counts_good_or_bad(tmp_path):
    old = keep(tmp_path, 5)
    assert whys(tmp_path) == dict.fromkeys(("n1", "n2"), (old, "", {"host": old}))
    bad = [{"nodes": ["n1"]}]
    node = {"findings": 1, **NOW}
    new = keep(tmp_path, 4, nodes={"n1": node}, findings=bad)
    assert whys(tmp_path) == {
        "n1": (new, "findings in", {"host": new}),
        "n2": (old, "", {"host": old}),
    }


def test_a_finding_that_names_nobody_voids_its_run(tmp_path):
    run = keep(tmp_path, 5, findings=[{"nodes": []}])
    assert {each[:2] for each in whys(tmp_path).values()} == {
        (run, "a fault that nobody was named for in")
    }


def test_what_apply_changed_is_measured_again(tmp_path):
    keep(tmp_path, 5)
    states = {"n1": {"state": "changed"}, "n2": {"state": "unchanged"}}
    run = keep(tmp_path, 4, "apply", nodes=states)
    found = whys(tmp_path)
    assert found["n1"][:2] == (run, "changed by")
    assert found["n2"][1] == ""


@pytest.mark.parametrize(
    "more",
    [
        {"stages": [{**STAGES[0], "state": "skipped"}]},
        {"stages": [{**STAGES[0], "name": "fleet"}]},
        {"stages": [{**STAGES[0], "name": "scaling"}]},
        {"stages": [{**STAGES[0], "taken": {"../../x": {"n1": 1, "n2": 1}}}]},
        {"site": "elsewhere"},
        {"stages": 7},
        {"nodes": {"n1": []}},
        {"findings": [3]},
    ],
)
def test_what_does_not_prove_a_stage_is_not_taken(tmp_path, more):
    keep(tmp_path, 5, **more)
    assert not any(stages for _, _, stages in whys(tmp_path).values())


def test_a_proof_is_as_old_as_a_certificate_at_most(tmp_path):
    run = tmp_path / keep(tmp_path, 3 * 24)
    shutil.copytree(run, tmp_path / "rack1-accept")
    assert whys(tmp_path, days=5)
    assert not whys(tmp_path, days=3)
