"""Verdicts of a certificate are computed again from its numbers."""

from __future__ import annotations

import pytest
from tests.cli.certificate.statements import read

from rdmaprov.certificate.recompute import verdict_objections


def _slow(predicate):
    predicate["floors"][0]["floor_gb_s"] += 10


def _below_least(predicate):
    number = {"what": "gpu001 alone", "gb_s": 300.0, "least_gb_s": 400.0}
    predicate["stages"][-1]["numbers"].append(number)


def _fast_rank(predicate):
    predicate["nodes"]["gpu002"]["ranks"][0]["median_us"] *= 2


def _lost_rank(predicate):
    del predicate["nodes"]["gpu002"]["ranks"][1]


def _fast_row(predicate):
    predicate["rows"][0]["busbw_gb_s"] *= 1.01


def _impossible(predicate):
    predicate["floors"][0]["most_gb_s"] = predicate["floors"][0]["measured_gb_s"] / 2


def _no_fleet(predicate):
    predicate["stages"] = [each for each in predicate["stages"] if each["name"] != "fleet"]


def _failed(predicate):
    predicate["stages"][-1]["state"] = "failed"


def _no_floor(predicate):
    predicate["floors"] = []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_slow, "is slow"),
        (_below_least, "is below the least"),
        (_fast_rank, "slowest rank"),
        (_lost_rank, "each rank"),
        (_fast_row, "as bytes and time make"),
        (_impossible, "is impossible"),
        (_no_fleet, "lack the stage fleet"),
        (_failed, "is failed"),
        (_no_floor, "has a floor"),
    ],
)
def test_verdicts_are_computed_from_the_numbers(run, change, says):
    predicate = read(run)["predicate"]
    assert list(verdict_objections(predicate)) == []
    change(predicate)
    assert says in "; ".join(each.what for each in verdict_objections(predicate))
