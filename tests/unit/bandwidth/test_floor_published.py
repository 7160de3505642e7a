"""The floor against published measurements, and what the docs print of its data."""

from __future__ import annotations

import pytest
from tests import published
from tests.unit.helpers.floors import DOCS, H100

from rdmaprov.bandwidth.fabric import Fabric
from rdmaprov.bandwidth.floor import derive
from rdmaprov.bandwidth.floor_model import FloorVerdict
from rdmaprov.bandwidth.signatures import SIGNATURES

MEASUREMENTS = published.measurements()


def test_there_are_enough_published_measurements():
    assert sum(item.healthy for item in MEASUREMENTS) >= 15
    assert sum(item.told_by == "floor" for item in MEASUREMENTS) >= 10


@pytest.mark.parametrize("item", MEASUREMENTS, ids=lambda item: item.name)
def test_published_measurement_is_judged_as_its_source_says(item):
    wanted = FloorVerdict.SLOW if item.told_by == "floor" else FloorVerdict.HEALTHY
    if item.row["said"] == "not judged":
        wanted = FloorVerdict.NOT_JUDGED
    assert item.judgement.verdict == wanted


def test_a_slow_one_has_a_cause_and_what_tells_it():
    slow = [item for item in MEASUREMENTS if item.row["said"] == "slow"]
    assert all(item.row["cause"] and item.told_by for item in slow)


def test_each_slow_one_has_causes_whose_ranges_hold_it():
    for item in MEASUREMENTS:
        if item.judgement.verdict is FloorVerdict.SLOW:
            ranges = [cause.expected_gb_s for cause in item.judgement.likely_causes]
            assert ranges, item.name
            assert all(low <= item.busbw * 1.001 <= high * 1.002 for low, high in ranges), item.name


@pytest.mark.parametrize(
    ("cause", "id_"),
    [
        ("no GPUDirect RDMA on one node", "no-gdr"),
        ("no GPUDirect RDMA", "no-gdr"),
        ("ACS", "half-path"),
        ("one rail carries all", "one-rail"),
        ("TCP on the management network", "socket"),
        ("MTU 1500", "mtu-1500"),
        ("one of two devices of a port carries all", "half-rate"),
        ("InfiniBand in place of NVLink", "rails-instead"),
    ],
)
def test_the_known_cause_of_a_published_slow_one_is_among_the_likely(cause, id_):
    [item] = [item for item in MEASUREMENTS if item.row.get("cause") == cause]
    assert id_ in [likely.id for likely in item.judgement.likely_causes]


def test_table_of_the_docs_is_the_data_s():
    """Refresh with: python -m tests.published, into docs/acceptance.md."""
    assert published.table() in DOCS.read_text(encoding="utf-8")


@pytest.mark.parametrize("item", SIGNATURES, ids=lambda item: item.id)
def test_signature_is_in_the_docs(item):
    low, high = item.left(H100, "auto")
    row = f"| {item.cause} | {100 * low:.0f} to {100 * high:.0f} % | {item.check} | {item.source} |"
    assert row in DOCS.read_text(encoding="utf-8")


@pytest.mark.parametrize("nodes", [2, 4, 8, 16, 32, 64, 128, 256, 512])
def test_the_shares_of_a_floor_are_in_the_docs(nodes):
    fleet = Fabric(nodes, 8, 8, 400)
    cells = [
        f"{100 * derive(fleet, name).floor_gb_s / 400:.0f} %"
        for name in ("ring", "tree", "nvlstree", "auto")
    ]
    assert f"| {nodes} | {' | '.join(cells)} |" in DOCS.read_text(encoding="utf-8")
