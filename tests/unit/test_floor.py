"""The floor of an all-reduce: ceilings from traffic, verdicts against published measurements."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from tests import published

from rdmaprov.bandwidth import ceiling
from rdmaprov.bandwidth.efficiency import STEPS
from rdmaprov.bandwidth.fabric import Fabric, FabricError, check_fabric, parse_slot
from rdmaprov.bandwidth.floor import FloorVerdict, derive, judge
from rdmaprov.bandwidth.signatures import SIGNATURES
from rdmaprov.exit_codes import ExitCode

H100 = Fabric(16, 8, 8, 400)
MEASUREMENTS = published.measurements()
DOCS = Path(__file__).parents[2] / "docs/acceptance.md"


def verdict(fabric, measured, **how):
    return judge(fabric, derive(fabric, **how), measured, how.get("algorithm", "auto")).verdict


def causes(fabric, measured):
    return [cause.id for cause in judge(fabric, derive(fabric), measured).likely_causes]


# --- ceilings ------------------------------------------------------------------------------


def edges_of_the_busiest(count):
    """Return the most edges that a node has in two binary trees, the second shifted or mirrored."""

    def tree(numbers):
        edges = []
        for child in range(1, count):
            low = child & -child
            parent = (child ^ low) | (low << 1)
            edges.append((child, parent if parent < count else child ^ low))
        return [(numbers[a], numbers[b]) for a, b in edges]

    straight = list(range(count))
    other = straight[::-1] if count % 2 == 0 else [*straight[1:], 0]
    ends = list(itertools.chain(*tree(straight), *tree(other)))
    return max(ends.count(node) for node in straight)


@pytest.mark.parametrize("count", [2, 3, *range(4, 40), 127, 128])
def test_tree_links_are_those_of_the_trees_themselves(count):
    assert ceiling.tree_links(count) == edges_of_the_busiest(count)


@pytest.mark.parametrize(
    ("nodes", "most"), [(2, 400 * 15 / 8), (3, 400 * 4 / 3 * 23 / 24), (4, 400 * 31 / 32)]
)
def test_a_tree_beats_a_ring_on_two_and_three_nodes_only(nodes, most):
    assert ceiling.max_gb_s(Fabric(nodes, 8, 8, 400), "tree") == pytest.approx(most)


def test_a_ring_reaches_the_sum_of_the_rails():
    assert ceiling.max_gb_s(H100, "ring") == pytest.approx(400)


def test_sharp_nearly_doubles_a_ring_at_any_size():
    assert ceiling.max_gb_s(Fabric(1024, 8, 8, 400), "sharp") == pytest.approx(800, rel=1e-3)


def test_one_gpu_cannot_fill_four_rails():
    assert ceiling.ring_gb_s(Fabric(2, 1, 4, 400)) == pytest.approx(57.6, abs=0.1)


def test_a_slot_limits_the_rail_in_it():
    at_gen4 = ceiling.ring_gb_s(Fabric(2, 8, 8, 400, pcie=parse_slot("4x16")))
    assert at_gen4 == pytest.approx(8 * 28.8, abs=0.5)


def test_oversubscription_lowers_the_floor_and_not_what_is_possible():
    blocking = derive(Fabric(16, 8, 8, 400, oversubscription=2))
    assert (blocking.ceiling_gb_s, blocking.floor_gb_s) == (200, 160)
    assert blocking.most_gb_s == derive(H100).most_gb_s


# --- published measurements ----------------------------------------------------------------


def test_there_are_enough_published_measurements():
    assert sum(item.healthy for item in MEASUREMENTS) >= 15
    assert sum(item.told_by == "floor" for item in MEASUREMENTS) >= 10


@pytest.mark.parametrize("item", MEASUREMENTS, ids=lambda item: item.name)
def test_published_measurement_is_judged_as_its_source_says(item):
    told = not item.healthy and item.told_by == "floor"
    assert item.judgement.verdict == (FloorVerdict.SLOW if told else FloorVerdict.HEALTHY)


def test_a_slow_one_has_a_cause_and_what_tells_it():
    slow = [item for item in MEASUREMENTS if not item.healthy]
    assert all(item.row["cause"] and item.told_by for item in slow)


@pytest.mark.parametrize(
    ("cause", "id_"),
    [
        ("no GPUDirect RDMA on one node", "no-gdr"),
        ("no GPUDirect RDMA", "no-gdr"),
        ("ACS", "half-path"),
        ("one rail carries all", "one-rail"),
        ("TCP on the management network", "socket"),
    ],
)
def test_the_known_cause_of_a_published_slow_one_is_among_the_likely(cause, id_):
    [item] = [item for item in MEASUREMENTS if item.row.get("cause") == cause]
    assert id_ in [likely.id for likely in item.judgement.likely_causes]


def test_efficiency_falls_with_the_nodes():
    assert [step[1] for step in STEPS] == sorted((step[1] for step in STEPS), reverse=True)
    assert all(step[2] <= step[1] for step in STEPS)


def test_table_of_the_docs_is_the_data_s():
    """Refresh with: python -m tests.published, into docs/acceptance.md."""
    assert published.table() in DOCS.read_text(encoding="utf-8")


@pytest.mark.parametrize("item", SIGNATURES, ids=lambda item: item.id)
def test_signature_is_in_the_docs(item):
    low, high = item.left(H100)
    row = f"| {item.cause} | {100 * low:.0f} to {100 * high:.0f} % | {item.check} | {item.source} |"
    assert row in DOCS.read_text(encoding="utf-8")


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"to-{step[0]}")
def test_efficiency_is_in_the_docs(step):
    assert f"| {100 * step[1]:.0f} % | {100 * step[2]:.0f} % |" in DOCS.read_text(encoding="utf-8")


# --- verdicts ------------------------------------------------------------------------------


def test_sentence_says_ceiling_floor_and_share():
    said = judge(H100, derive(H100), 287).sentence
    start = "16 nodes, 8 × 400G: ceiling 400 GB/s, floor 320 GB/s"
    assert said == f"{start}, measured 287 GB/s (72 % of the ceiling)"


@pytest.mark.parametrize(
    ("measured", "wanted"),
    [
        (0, FloorVerdict.SLOW),
        (319.9, FloorVerdict.SLOW),
        (320, FloorVerdict.HEALTHY),
        (793, FloorVerdict.HEALTHY),
        (794, FloorVerdict.IMPOSSIBLE),
    ],
)
def test_verdict_changes_at_the_floor_and_at_what_the_links_carry(measured, wanted):
    assert verdict(H100, measured) == wanted


def test_more_than_a_ring_carries_is_impossible_by_a_ring():
    assert verdict(H100, 410, algorithm="ring") == FloorVerdict.IMPOSSIBLE
    assert verdict(H100, 400, algorithm="ring") == FloorVerdict.HEALTHY


def test_more_than_a_ring_carries_needs_sharp():
    [note] = judge(H100, derive(H100), 480).notes
    assert "SHARP" in note


def test_two_nodes_are_told_to_measure_a_ring():
    pair = Fabric(2, 8, 8, 400)
    [note] = judge(pair, derive(pair), 466).notes
    assert "NCCL_ALGO=Ring" in note


def test_gigabits_are_recognised():
    assert causes(H100, 3000)[0] == "gigabits"


def test_far_too_much_is_not_taken_for_gigabits():
    assert causes(H100, 1000) == ["not-these-links"]


@pytest.mark.parametrize(
    ("measured", "id_"),
    [(287, "rail-missing"), (46, "one-rail"), (210, "half-slot"), (190, "oversubscribed")],
)
def test_a_signature_is_found_by_its_share(measured, id_):
    assert id_ in causes(H100, measured)


def test_one_rail_of_one_is_no_cause():
    assert "one-rail" not in causes(Fabric(16, 8, 1, 400), 30)


def test_the_sharpest_signature_comes_first():
    assert causes(H100, 46)[0] == "one-rail"


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ({"nodes": 0}, "--nodes must be from 2 to 100000, not 0"),
        ({"nodes": 1}, "uses no rail"),
        ({"nodes": -4}, "--nodes must be .*, not -4"),
        ({"rails": 0}, "--rails must be .*, not 0"),
        ({"gpus_per_node": -1}, "--gpus-per-node must be .*, not -1"),
        ({"link_gbps": 400_000}, "--link-gbps must be .*, not 400000"),
        ({"link_gbps": float("nan")}, "--link-gbps must be .*, not nan"),
        ({"oversubscription": 0.5}, "--oversubscription must be .*, not 0.5"),
        ({"nvlink_nodes": 16}, "share NVLink"),
    ],
)
def test_numbers_that_no_fabric_has_are_refused(numbers, says):
    good = {"nodes": 16, "gpus_per_node": 8, "rails": 8, "link_gbps": 400}
    with pytest.raises(FabricError, match=says) as refused:
        check_fabric(Fabric(**{**good, **numbers}))
    assert refused.value.exit_code == ExitCode.USAGE


@pytest.mark.parametrize("text", ["", "5", "2x16", "5x3", "x16", "5x16x2"])
def test_a_text_that_is_no_slot_is_refused(text):
    with pytest.raises(FabricError, match="PCIe slot"):
        parse_slot(text)


@pytest.mark.parametrize("measured", [-1, float("nan"), float("inf")])
def test_a_measurement_that_is_none_is_refused(measured):
    with pytest.raises(FabricError, match="--measured"):
        judge(H100, derive(H100), measured)


# --- a site's own floor --------------------------------------------------------------------


def test_a_site_may_raise_the_floor():
    assert verdict(H100, 350, site_floor_gb_s=360) == FloorVerdict.SLOW


def test_without_a_reason_a_floor_is_not_lowered():
    assert derive(H100, site_floor_gb_s=250).floor_gb_s == 320


def test_the_reason_of_a_lowered_floor_is_told_each_time():
    lowered = derive(H100, site_floor_gb_s=250, reason="old optics on leaf 3")
    assert "old optics on leaf 3" in judge(H100, lowered, 287).sentence
    assert judge(H100, lowered, 287).verdict == FloorVerdict.HEALTHY


def test_a_floor_above_the_ceiling_is_refused():
    with pytest.raises(FabricError, match="must be from 0 to the ceiling"):
        derive(H100, site_floor_gb_s=3200)
