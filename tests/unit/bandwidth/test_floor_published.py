"""The floor by algorithm, against published measurements, and what the docs print of it."""

import re
from dataclasses import replace

import pytest
from tests import published
from tests.tables import cases
from tests.unit.helpers.floors import DOCS, H100, verdict

from rdmaprov.bandwidth import efficiency
from rdmaprov.bandwidth.fabric import Fabric
from rdmaprov.bandwidth.floor import derive, judge, possible_algorithms
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
    ("cause", "id_"), cases(__file__, "the_known_cause_of_a_published_slow_one_is_among_the_likely")
)
def test_the_known_cause_of_a_published_slow_one_is_among_the_likely(cause, id_):
    [item] = [item for item in MEASUREMENTS if item.row.get("cause") == cause]
    assert id_ in [likely.id for likely in item.judgement.likely_causes]


def test_table_of_the_docs_is_the_data_s():
    """Refresh with: python -m tests.published > docs/measurements.md."""
    assert (DOCS / "measurements.md").read_text(encoding="utf-8") == published.markdown()


@pytest.mark.parametrize("item", SIGNATURES, ids=lambda item: item.id)
def test_signature_is_in_the_docs(item):
    low, high = item.left(H100, "auto")
    row = f"| {item.cause} | {100 * low:.0f} to {100 * high:.0f} % | {item.check} | {item.source} |"
    assert row in (DOCS / "slow.md").read_text(encoding="utf-8")


def test_signatures_of_the_docs_begin_with_the_narrowest():
    found = re.findall(r"\| (\d+) to (\d+) % \|", (DOCS / "slow.md").read_text(encoding="utf-8"))
    widths = [int(high) - int(low) for low, high in found]
    assert len(widths) == len(SIGNATURES)
    assert widths == sorted(widths)


@pytest.mark.parametrize("nodes", [2, 4, 8, 16, 32, 64, 128, 256, 512])
def test_the_shares_of_a_floor_are_in_the_docs(nodes):
    fleet = Fabric(nodes, 8, 8, 400)
    cells = [
        f"{100 * derive(fleet, name).floor_gb_s / 400:.0f} %"
        for name in ("ring", "tree", "nvlstree", "auto")
    ]
    assert f"| {nodes} | {' | '.join(cells)} |" in (DOCS / "floor.md").read_text()


def test_a_ring_s_share_falls_with_the_nodes_and_a_tree_s_does_not():
    sizes = (4, 8, 16, 64, 256, 1024)
    rings = [efficiency.network_share(Fabric(n, 8, 8, 400), "ring") for n in sizes]
    assert rings == sorted(rings, reverse=True)
    assert rings[3] == pytest.approx(0.67)
    assert len({efficiency.network_share(Fabric(n, 8, 8, 400), "tree") for n in sizes}) == 1


def test_latency_is_that_of_nccl_s_own_model():
    """64 nodes of 8: 2 · 511 steps of a ring, 126 of them between nodes."""
    fleet = Fabric(64, 8, 8, 400)
    assert efficiency.latency_us(fleet, "ring") == pytest.approx(8.4 + 896 * 3.4 + 126 * 14)
    assert efficiency.latency_us(fleet, "tree") == pytest.approx(8.4 + 2 * (7 * 4 + 6 * 14))


@pytest.mark.parametrize("nodes", [64, 128, 512])
def test_a_small_message_has_a_lower_floor_most_of_all_by_a_ring(nodes):
    fleet = Fabric(nodes, 8, 8, 400)

    def kept(algorithm):
        small, large = (
            derive(fleet, algorithm, size_bytes=size).floor_gb_s for size in (1 << 30, 16 << 30)
        )
        return small / large

    assert kept("ring") < 0.75 < 0.9 < kept("tree")


def test_a_large_ring_is_accepted_where_a_tree_would_be_refused():
    """2 · 4,095 steps cost a ring of 512 nodes nearly as long as the data itself."""
    fleet = Fabric(512, 8, 8, 400)
    assert verdict(fleet, 190, algorithm="ring") == FloorVerdict.HEALTHY
    assert verdict(fleet, 190, algorithm="tree") == FloorVerdict.SLOW
    assert verdict(fleet, 190) == FloorVerdict.SLOW  # nobody takes a ring there


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        (2, {"ring", "tree", "nvlstree"}),
        (16, {"ring", "nvlstree"}),
        (128, {"ring", "tree", "nvlstree"}),
        (512, {"tree", "nvlstree"}),
    ],
)
def test_possible_are_the_algorithms_that_nccl_does_not_expect_to_be_clearly_slower(nodes, names):
    assert set(possible_algorithms(Fabric(nodes, 8, 8, 400), 8 << 30)) == names


def test_without_an_algorithm_the_floor_is_the_least_of_the_possible():
    wanted = derive(H100)
    each = [derive(H100, name).floor_gb_s for name in wanted.candidates]
    assert wanted.floor_gb_s == min(each) < max(each)


def test_a_known_algorithm_finds_what_the_number_alone_does_not():
    """Half a slot on two nodes: below the floor of the tree that ran, above that of a ring."""
    pair = Fabric(2, 8, 8, 400)
    half = 0.94 * 400
    assert verdict(pair, half) == FloorVerdict.HEALTHY
    assert verdict(pair, half, algorithm="nvlstree") == FloorVerdict.SLOW
    known = replace(pair, intra_node_gb_s=475, intra_node_by="nvls")
    assert verdict(known, half, algorithm="nvlstree") == FloorVerdict.SLOW
    assert verdict(known, 466, algorithm="nvlstree") == FloorVerdict.HEALTHY
    assert "half-slot" in [
        cause.id for cause in judge(pair, derive(pair, "nvlstree"), half).likely_causes
    ]
