"""The floor where NVLink or PCIe limits it: inside a node, and in NVLink domains."""

from __future__ import annotations

import pytest
from tests.unit.helpers.floors import verdict

from rdmaprov.bandwidth import gpus
from rdmaprov.bandwidth.fabric import Fabric, FabricError, parse_slot
from rdmaprov.bandwidth.floor import derive, judge
from rdmaprov.bandwidth.floor_model import FloorVerdict


@pytest.mark.parametrize(
    ("name", "slot", "least", "most"),
    [
        ("NVIDIA H100 80GB HBM3", "5x16", 370, 480),
        ("NVIDIA H800", "5x16", 160, 215),
        ("NVIDIA A100-SXM4-80GB", "4x16", 208, 300),
        ("NVIDIA GB200", "5x16", 840, 900),
        ("NVIDIA GeForce RTX 5090", "5x16", 20, 28),
        ("NVIDIA H100 PCIe", "5x16", 20, 50),
        ("NVIDIA A100-PCIE-40GB", "4x16", 10, 20),
    ],
)
def test_a_gpu_s_name_limits_what_a_node_reaches_alone(name, slot, least, most):
    found = gpus.intra_node([name], parse_slot(slot))
    assert found is not None
    assert least <= found.gb_s <= most


def test_an_unknown_gpu_limits_nothing():
    assert gpus.intra_node(["Something 9000"], parse_slot("5x16")) is None


def test_the_weakest_gpu_counts():
    names = ["NVIDIA H100 80GB HBM3", "NVIDIA H800"]
    assert gpus.intra_node(names, parse_slot("5x16")) == gpus.IntraNode(215, "nvls")


@pytest.mark.parametrize(
    ("inside", "healthy"), [(215, 160), (28, 24), (20, 17)], ids=["H800", "RTX 5090", "A100 pairs"]
)
@pytest.mark.parametrize("nodes", [2, 16, 64])
def test_a_fleet_is_not_asked_for_more_than_a_node_reaches_alone(nodes, inside, healthy):
    """On 8 × 400G, NVLink or PCIe inside the nodes is what limits."""
    fleet = Fabric(nodes, 8, 8, 400, intra_node_gb_s=inside)
    without = Fabric(nodes, 8, 8, 400)
    assert verdict(without, healthy) == FloorVerdict.SLOW
    assert verdict(fleet, healthy) == FloorVerdict.HEALTHY
    assert verdict(fleet, inside / 3) == FloorVerdict.SLOW


def test_one_gpu_in_a_node_is_not_limited_by_others_in_it():
    alone = Fabric(2, 1, 4, 400, intra_node_gb_s=27, intra_node_by="ring")
    assert derive(alone).floor_gb_s == pytest.approx(derive(Fabric(2, 1, 4, 400)).floor_gb_s)


@pytest.mark.parametrize(
    ("measured", "ids"),
    [
        (50, ["rails-instead", "pcie-instead", "nvlink-part"]),
        (90, ["rails-instead", "pcie-instead", "nvlink-part"]),
        (500, ["nvlink-part"]),
    ],
)
def test_two_trays_of_a_rack_that_fall_back_are_told_so(measured, ids):
    trays = Fabric(
        2,
        4,
        4,
        400,
        nvlink_nodes=18,
        intra_node_gb_s=846,
        intra_node_by="nvls",
        gpu_pcie=parse_slot("6x16"),
    )
    assert [cause.id for cause in judge(trays, derive(trays), measured).likely_causes] == ids


def test_one_rack_is_judged_by_nvlink_and_no_rail_explains_it():
    rack = Fabric(18, 4, 4, 400, nvlink_nodes=18, intra_node_gb_s=840)
    assert verdict(rack, 846) == FloorVerdict.HEALTHY
    slow = judge(rack, derive(rack), 300)
    assert slow.verdict == FloorVerdict.SLOW
    assert [cause.id for cause in slow.likely_causes] == ["nvlink-part"]


def test_the_second_plane_of_a_rack_is_that_of_its_rails():
    """With NCCL_MNNVL_ENABLE=0 the same nodes use their own rails."""
    rails = Fabric(18, 4, 4, 400, nvlink_nodes=1, intra_node_gb_s=690)
    assert derive(rails).ceiling_gb_s == 200
    assert verdict(rails, 170) == FloorVerdict.HEALTHY
    assert verdict(rails, 90) == FloorVerdict.SLOW


def test_two_racks_use_the_rails_of_all_their_nodes():
    racks = Fabric(36, 4, 4, 400, nvlink_nodes=18, intra_node_gb_s=846)
    assert derive(racks).ceiling_gb_s == 846
    assert verdict(racks, 820) == FloorVerdict.HEALTHY
    assert verdict(racks, 300) == FloorVerdict.SLOW


def test_a_rack_whose_nvlink_is_not_known_has_no_floor():
    with pytest.raises(FabricError, match="18 nodes of one NVLink domain uses no rail"):
        derive(Fabric(18, 4, 4, 400, nvlink_nodes=18))
