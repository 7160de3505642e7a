"""The floor of a run by the algorithm that NCCL chose, as its log says."""

from __future__ import annotations

import pytest
from tests.madeup.accept import accept
from tests.madeup.logs import NO_SHARP
from tests.madeup.shape import FleetShape
from tests.unit.helpers.accept_runs import say
from tests.unit.helpers.swept_fleets import GIB, choices, floor_of, gate_site, judge, swept

from rdmaprov.acceptance.evidence import floor as fleet_floor
from rdmaprov.acceptance.evidence import judge as evidence
from rdmaprov.acceptance.ranks.plan import Task


def taken(ran):
    row = fleet_floor.fleet_row(ran)
    assert row is not None
    return fleet_floor.taken(choices(ran), row)


def test_half_a_slot_on_two_nodes_is_found_by_the_algorithm_that_ran():
    """0.94 of a ring's ceiling by NVLSTree, whose healthy fleets reach 1.17."""
    site, half = gate_site(2, gpu="NVIDIA H100 80GB HBM3"), 0.94 * 400
    assert floor_of(site, swept(2, 8, half, 8 * GIB))[1] == []
    judgement, [finding] = judge(site, swept(2, 8, half, 8 * GIB, "NVLS_TREE"))
    assert judgement.floor.algorithm == "nvlstree"
    assert "half its width" in finding.remedy
    assert floor_of(site, swept(2, 8, 466, 8 * GIB, "NVLS_TREE"))[1] == []


def test_a_healthy_ring_of_many_nodes_passes_by_its_algorithm():
    site = gate_site(128)
    assert floor_of(site, swept(128, 8, 230, 8 * GIB, "RING"))[1] == []
    assert floor_of(site, swept(128, 8, 230, 8 * GIB, "TREE"))[1] != []


def test_an_unknown_algorithm_is_said():
    judgement, found = judge(gate_site(16), swept(16, 8, 330, 8 * GIB))
    assert found == []
    assert any("The algorithm is not known" in note for note in judgement.notes)
    known, _ = judge(gate_site(16), swept(16, 8, 330, 8 * GIB, "RING"))
    assert not any("not known" in note for note in known.notes)


@pytest.mark.parametrize("said", ["PAT", "SOMETHING_NEW"])
def test_an_algorithm_that_the_floor_does_not_have_is_unknown(said):
    assert taken(swept(2, 8, 380, 8 * GIB, said)) == "auto"


def test_a_log_that_is_no_archive_leaves_the_algorithm_unknown():
    ran = swept(2, 8, 380, 8 * GIB)
    ran.nodes["n0"].logs = b"\x00not an archive Bytes -> "
    assert taken(ran) == "auto"


def test_a_group_s_row_is_not_the_fleet_s():
    ran = swept(2, 8, 380, 8 * GIB)
    ran.tasks[1] = Task(1, "groups", "all rails", (tuple(range(8)),), sizes=(16 * GIB,))
    for rank in range(8):
        at = {"plane": "all rails", "task": 1, "group": 0, "in_place": True, "dtype": "float32"}
        say(ran, rank, "row", **at, bytes=16 * GIB, count=5, median_us=1.0, p99_us=1.0, min_us=1.0)
    row = fleet_floor.fleet_row(ran)
    assert row is not None
    assert row.bytes == 8 * GIB


def test_history_compares_runs_of_one_algorithm(tmp_path):
    path, site = tmp_path / "history.jsonl", gate_site(16)
    for day in range(6):
        ran = swept(16, 8, 380, 8 * GIB, "NVLS_TREE")
        evidence.compare_with_history(
            site, ran, choices(ran), path, f"2026-01-0{day + 1}T00:00:00+00:00"
        )
    when = "2026-02-01T00:00:00+00:00"
    by_ring = swept(16, 8, 340, 8 * GIB, "RING")
    assert evidence.compare_with_history(site, by_ring, choices(by_ring), path, when) == []
    by_tree = swept(16, 8, 340, 8 * GIB, "NVLS_TREE")
    [note] = evidence.compare_with_history(site, by_tree, choices(by_tree), path, when)
    assert "below the median" in note


def shape(sharp: str) -> FleetShape:
    return FleetShape(4, kind="infiniband", per_leaf=2, sharp=sharp)


def gate(sharp: str):
    return accept(shape(sharp), stages=("preflight", "host", "fleet")).result


def test_used_is_accepted_and_proven_by_number_and_compared():
    result = gate("used")
    assert result.verdict == "accepted", result.findings
    notes = [each for each in result.notes if each.startswith("SHARP:")]
    assert notes[0].startswith("SHARP: proven by number: ")
    assert "what rings and trees carry is at most 400.0 GB/s" in notes[0]
    assert notes[1].endswith("times")
    assert 1.1 < float(notes[1].split()[-2]) < 2.0


@pytest.mark.parametrize(
    ("what", "cause"),
    [
        ("no manager", "no aggregation manager gave a job: check sharp_am"),
        ("no plugin", "no rank loaded the SHARP plugin"),
        ("off", "CollNet is off: no rank has NCCL_COLLNET_ENABLE=1"),
        ("threshold", "the communicator has too few nodes"),
    ],
)
def test_not_used_is_refused_with_its_cause(what: str, cause: str):
    assert what in NO_SHARP
    result = gate(what)
    (finding,) = result.findings
    assert result.verdict == "refused"
    assert finding.what.startswith("SHARP is wanted (fabric_sharp) and not used: NCCL took ")
    assert finding.remedy.startswith(f"Likely cause: {cause}")
    assert (finding.level, finding.nodes) == ("fleet", ())
    if what == "no manager":
        assert "SHARP coll init error: Cannot create SHARP job(-11)" in finding.what


def test_not_wanted_is_silent():
    result = gate("")
    assert result.verdict == "accepted"
    assert not [each for each in result.notes if "SHARP" in each]
