"""Verdicts of the floor, inside a node too, ceilings, and a site's own floor."""

import itertools

import pytest
from tests.tables import cases
from tests.unit.helpers.floors import H100, causes, verdict

from rdmaprov.bandwidth import ceiling, gpus
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
    ring = derive(H100, "ring")
    notes = {at: judge(H100, ring, at, "ring").notes for at in (399, 405)}
    assert ["measurement's error" in "".join(notes[at]) for at in notes] == [False, True]


def test_more_than_a_ring_carries_is_reduced_by_switches_or_the_links_are_others():
    (note,) = [note for note in judge(H100, derive(H100), 480).notes if "SHARP" in note]
    assert "not as stated" in note
    assert not any("SHARP" in note for note in judge(H100, derive(H100), 403).notes)  # noise


def test_two_nodes_are_told_to_measure_a_ring():
    pair = Fabric(2, 8, 8, 400)
    assert any("hide a slow rail" in note for note in judge(pair, derive(pair), 466).notes)


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
    ("fabric", "measured", "id_"),
    [
        (H100, 287, "rail-missing"),
        (H100, 210, "half-slot"),
        (H100, 190, "oversubscribed"),
        (Fabric(2, 1, 2, 100), 20.95, "mtu-1500"),
        (Fabric(2, 1, 2, 100), 12.25, "half-rate"),
        (Fabric(2, 1, 2, 100), 98, "gigabits"),
        (Fabric(2, 4, 4, 800), 177, "quarter-rate"),  # one plane of four, behind a tree too
    ],
)
def test_a_signature_is_found_by_its_share(fabric, measured, id_):
    assert id_ in causes(fabric, measured)


@pytest.mark.parametrize(("measured", "id_"), [(46, "one-rail"), (3000, "gigabits")])
def test_the_sharpest_signature_comes_first(measured, id_):
    assert causes(H100, measured)[0] == id_
    assert "one-rail" not in causes(Fabric(16, 8, 1, 400), 30)  # it has but one


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        *cases(__file__, "numbers_that_no_fabric_has_are_refused"),
        ({"intra_node_gb_s": float("nan")}, "--intra-node nan is not"),
        ({"link_gbps": float("nan")}, "--link-gbps must be .*, not nan"),
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


def test_a_site_may_raise_the_floor_and_lower_it_with_a_reason():
    assert verdict(H100, 350, site_floor_gb_s=360) == FloorVerdict.SLOW
    assert derive(H100, site_floor_gb_s=250).floor_gb_s == derive(H100).floor_gb_s
    with pytest.raises(FabricError, match="must be from 0 to the ceiling"):
        derive(H100, site_floor_gb_s=3200)


def test_the_reason_of_a_lowered_floor_is_told_each_time():
    lowered = derive(H100, site_floor_gb_s=250, reason="old optics on leaf 3")
    assert "old optics on leaf 3" in judge(H100, lowered, 287).sentence
    assert judge(H100, lowered, 287).verdict == FloorVerdict.HEALTHY


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
    ("fabric", "algorithm", "most"),
    [
        (Fabric(2, 8, 8, 400), "tree", pytest.approx(400 * 15 / 8)),
        (Fabric(3, 8, 8, 400), "tree", pytest.approx(400 * 4 / 3 * 23 / 24)),
        (Fabric(4, 8, 8, 400), "tree", pytest.approx(400 * 31 / 32)),
        (H100, "ring", pytest.approx(400)),
        (Fabric(1024, 8, 8, 400), "sharp", pytest.approx(800, rel=1e-3)),
    ],
    ids=["tree of 2 beats a ring", "of 3 too", "of 4 not", "sum of the rails", "SHARP, twice"],
)
def test_an_algorithm_reaches_what_its_links_carry(fabric, algorithm, most):
    assert ceiling.max_gb_s(fabric, algorithm) == most


def test_one_gpu_cannot_fill_four_rails_and_a_slot_limits_the_rail_in_it():
    assert ceiling.ring_gb_s(Fabric(2, 1, 4, 400)) == pytest.approx(57.6, abs=0.1)
    at_gen4 = ceiling.ring_gb_s(Fabric(2, 8, 8, 400, pcie=parse_slot("4x16")))
    assert at_gen4 == pytest.approx(8 * 28.8, abs=0.5)


def test_oversubscription_lowers_the_floor_and_not_what_is_possible():
    blocking = derive(Fabric(16, 8, 8, 400, oversubscription=2))
    assert blocking.ceiling_gb_s == 200
    assert blocking.floor_gb_s == pytest.approx(derive(H100).floor_gb_s / 2, rel=0.02)
    assert blocking.most_gb_s == derive(H100).most_gb_s


@pytest.mark.parametrize(
    ("name", "slot", "least", "most"),
    cases(__file__, "a_gpu_s_name_limits_what_a_node_reaches_alone"),
)
def test_a_gpu_s_name_limits_what_a_node_reaches_alone(name, slot, least, most):
    found = gpus.intra_node([name], parse_slot(slot))
    assert found is not None
    assert least <= found.gb_s <= most


def test_the_weakest_gpu_counts_and_an_unknown_one_limits_nothing():
    names = ["NVIDIA H100 80GB HBM3", "NVIDIA H800"]
    assert gpus.intra_node(names, parse_slot("5x16")) == gpus.IntraNode(215, "nvls")
    assert gpus.intra_node(["Something 9000"], parse_slot("5x16")) is None


@pytest.mark.parametrize(
    ("inside", "healthy"), [(215, 160), (28, 24), (20, 17)], ids=["H800", "RTX 5090", "A100 pairs"]
)
@pytest.mark.parametrize("nodes", [2, 16, 64])
def test_a_fleet_is_not_asked_for_more_than_a_node_reaches_alone(nodes, inside, healthy):
    """On 8 × 400G, NVLink or PCIe inside the nodes is what limits."""
    fleet = Fabric(nodes, 8, 8, 400, intra_node_gb_s=inside)
    assert verdict(Fabric(nodes, 8, 8, 400), healthy) == FloorVerdict.SLOW
    assert verdict(fleet, healthy) == FloorVerdict.HEALTHY
    assert verdict(fleet, inside / 3) == FloorVerdict.SLOW


def test_one_gpu_in_a_node_is_not_limited_by_others_in_it():
    alone = Fabric(2, 1, 4, 400, intra_node_gb_s=27, intra_node_by="ring")
    assert derive(alone).floor_gb_s == pytest.approx(derive(Fabric(2, 1, 4, 400)).floor_gb_s)


@pytest.mark.parametrize(
    ("measured", "ids"), cases(__file__, "two_trays_of_a_rack_that_fall_back_are_told_so")
)
def test_two_trays_of_a_rack_that_fall_back_are_told_so(measured, ids):
    inside = {"intra_node_gb_s": 846, "intra_node_by": "nvls"}
    trays = Fabric(2, 4, 4, 400, nvlink_nodes=18, gpu_pcie=parse_slot("6x16"), **inside)  # type: ignore[arg-type]
    assert causes(trays, measured) == ids


def test_one_rack_is_judged_by_nvlink_and_no_rail_explains_it():
    rack = Fabric(18, 4, 4, 400, nvlink_nodes=18, intra_node_gb_s=840)
    assert verdict(rack, 846) == FloorVerdict.HEALTHY
    slow = judge(rack, derive(rack), 300)
    assert slow.verdict == FloorVerdict.SLOW
    assert [cause.id for cause in slow.likely_causes] == ["nvlink-part"]


@pytest.mark.parametrize(
    ("nodes", "nvlink_nodes", "inside", "ceiling_gb_s", "healthy", "slow"),
    [(18, 1, 690, 200, 170, 90), (36, 18, 846, 846, 820, 300)],
    ids=["one rack with NCCL_MNNVL_ENABLE=0 uses its own rails", "two use those of all nodes"],
)
def test_racks_use_rails(nodes, nvlink_nodes, inside, ceiling_gb_s, healthy, slow):
    racks = Fabric(nodes, 4, 4, 400, nvlink_nodes=nvlink_nodes, intra_node_gb_s=inside)
    assert derive(racks).ceiling_gb_s == ceiling_gb_s
    assert verdict(racks, healthy) == FloorVerdict.HEALTHY
    assert verdict(racks, slow) == FloorVerdict.SLOW


def test_a_rack_whose_nvlink_is_not_known_has_no_floor():
    with pytest.raises(FabricError, match="18 nodes of one NVLink domain uses no rail"):
        derive(Fabric(18, 4, 4, 400, nvlink_nodes=18))
