"""SHARP: wanted and used is accepted, wanted and not used is named, not wanted is silent."""

from __future__ import annotations

import pytest
from tests.madeup.accept import accept
from tests.madeup.logs import NO_SHARP
from tests.madeup.shape import FleetShape


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
    gain = float(notes[1].split()[-2])
    assert 1.1 < gain < 2.0


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
