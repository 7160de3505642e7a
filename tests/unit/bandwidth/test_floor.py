"""Verdicts of the floor, likely causes, and a site's own floor."""

from __future__ import annotations

import pytest
from tests.unit.helpers.floors import H100, causes, verdict

from rdmaprov.bandwidth.fabric import Fabric, FabricError, check_fabric, parse_slot
from rdmaprov.bandwidth.floor import derive, judge
from rdmaprov.bandwidth.floor_model import FloorVerdict
from rdmaprov.exit_codes import ExitCode


def test_sentence_says_ceiling_floor_and_share():
    said = judge(H100, derive(H100), 287).sentence
    start = "16 nodes, 8 × 400G: ceiling 400 GB/s, floor 294 GB/s"
    assert said == f"{start}, measured 287 GB/s (72 % of the ceiling)"


@pytest.mark.parametrize(
    ("measured", "wanted"),
    [
        (0, FloorVerdict.SLOW),
        (293, FloorVerdict.SLOW),
        (294, FloorVerdict.HEALTHY),
        (793, FloorVerdict.HEALTHY),
        (809, FloorVerdict.HEALTHY),  # 2 % above what the links carry is noise
        (810, FloorVerdict.IMPOSSIBLE),
    ],
)
def test_verdict_changes_at_the_floor_and_at_what_the_links_carry(measured, wanted):
    assert verdict(H100, measured) == wanted


def test_more_than_a_ring_carries_is_impossible_by_a_ring():
    assert verdict(H100, 410, algorithm="ring") == FloorVerdict.IMPOSSIBLE
    assert verdict(H100, 400, algorithm="ring") == FloorVerdict.HEALTHY


def test_more_than_a_ring_carries_is_reduced_by_switches_or_the_links_are_others():
    (note,) = [note for note in judge(H100, derive(H100), 480).notes if "SHARP" in note]
    assert "not as stated" in note
    assert not any("SHARP" in note for note in judge(H100, derive(H100), 403).notes)  # noise


def test_two_nodes_are_told_to_measure_a_ring():
    pair = Fabric(2, 8, 8, 400)
    assert any("hide a slow rail" in note for note in judge(pair, derive(pair), 466).notes)


def test_gigabits_are_recognised():
    assert causes(H100, 3000)[0] == "gigabits"


def test_far_too_much_is_not_taken_for_gigabits():
    assert causes(H100, 1000) == ["more-links", "not-these-links"]
    assert causes(H100, 50_000) == ["not-these-links"]


@pytest.mark.parametrize("measured", [810, 1000, 1300, 3000, 7000, 50_000])
def test_the_range_of_each_cause_of_an_impossible_number_holds_it(measured):
    found = judge(H100, derive(H100), measured).likely_causes
    assert all(low <= measured <= high for low, high in (each.expected_gb_s for each in found))


def test_nvlink_s_own_number_is_named_first_where_the_gpu_is_known():
    one_rail = Fabric(2, 8, 1, 400, intra_node_gb_s=475, intra_node_by="nvls")
    assert causes(one_rail, 470)[0] == "nvlink"


@pytest.mark.parametrize(
    ("measured", "id_"), [(20.95, "mtu-1500"), (12.25, "half-rate"), (98, "gigabits")]
)
def test_a_pair_with_two_rails_of_100g(measured, id_):
    assert id_ in causes(Fabric(2, 1, 2, 100), measured)


def test_one_plane_of_four_is_named_behind_a_tree_too():
    assert "quarter-rate" in causes(Fabric(2, 4, 4, 800), 177)


@pytest.mark.parametrize("nodes", [2, 4, 32])
def test_an_alltoall_leaves_each_gpu_its_share_of_the_rails(nodes):
    ranks = 8 * nodes
    found = derive(Fabric(nodes, 8, 8, 400, collective="alltoall"))
    assert found.ceiling_gb_s == pytest.approx(400 * (ranks - 1) / (8 * (ranks - 8)))
    assert found.candidates == ("direct",)


def test_a_gather_has_a_ring_s_ceiling_and_half_of_its_steps():
    gather = Fabric(16, 8, 8, 400, collective="all_gather")
    assert derive(gather).ceiling_gb_s == 400
    floor = derive(H100, "ring").floor_gb_s  # half the steps, and half the data to move
    assert derive(gather).floor_gb_s == pytest.approx(floor, rel=1e-3)
    with pytest.raises(FabricError, match="all_gather has no floor by tree"):
        derive(gather, "tree")


def test_efa_of_few_rails_is_not_judged_below_the_floor():
    p4d = Fabric(4, 8, 4, 100, efa=True)
    assert verdict(p4d, 29.6) == FloorVerdict.NOT_JUDGED
    assert verdict(p4d, 45) == FloorVerdict.HEALTHY
    assert verdict(Fabric(4, 8, 32, 100, efa=True), 200) == FloorVerdict.SLOW


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
        ({"nodes": 0}, "--nodes must be from 1 to 100000, not 0"),
        ({"nodes": 1}, "one node uses no rail"),
        ({"nodes": 1, "gpus_per_node": 1}, "one GPU alone"),
        ({"intra_node_gb_s": 0}, "--intra-node 0 is not"),
        ({"intra_node_gb_s": float("nan")}, "--intra-node nan is not"),
        ({"nodes": -4}, "--nodes must be .*, not -4"),
        ({"rails": 0}, "--rails must be .*, not 0"),
        ({"gpus_per_node": -1}, "--gpus-per-node must be .*, not -1"),
        ({"link_gbps": 400_000}, "--link-gbps must be .*, not 400000"),
        ({"link_gbps": float("nan")}, "--link-gbps must be .*, not nan"),
        ({"oversubscription": 0.5}, "--oversubscription must be .*, not 0.5"),
        ({"nvlink_nodes": 16}, "they share NVLink"),
        ({"nvlink_nodes": 8, "collective": "alltoall"}, "alltoall by NVLink has no floor"),
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


def test_a_site_may_raise_the_floor():
    assert verdict(H100, 350, site_floor_gb_s=360) == FloorVerdict.SLOW


def test_without_a_reason_a_floor_is_not_lowered():
    assert derive(H100, site_floor_gb_s=250).floor_gb_s == derive(H100).floor_gb_s


def test_the_reason_of_a_lowered_floor_is_told_each_time():
    lowered = derive(H100, site_floor_gb_s=250, reason="old optics on leaf 3")
    assert "old optics on leaf 3" in judge(H100, lowered, 287).sentence
    assert judge(H100, lowered, 287).verdict == FloorVerdict.HEALTHY


def test_a_floor_above_the_ceiling_is_refused():
    with pytest.raises(FabricError, match="must be from 0 to the ceiling"):
        derive(H100, site_floor_gb_s=3200)
