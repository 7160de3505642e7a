"""What the PCI paths of rails and GPUs say: usual slots, and the GPU near each rail."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.madeup.shape import FleetShape
from tests.madeup.site import site_nodes
from tests.unit.helpers.surveyed_node import FULL, HALF, device, survey

from rdmaprov.acceptance.paths.ceilings import site_ceilings
from rdmaprov.acceptance.paths.pci import near_gpus, usual_slots
from rdmaprov.facts.pci_links import Link
from rdmaprov.perftest.expected import SlotLimit
from rdmaprov.perftest.loopback import slot_gb_s
from rdmaprov.perftest.matrix import PathKey

RISER = ["32.0 GT/s PCIe", "8", "32.0 GT/s PCIe", "8"]


def test_a_riser_with_half_the_lanes_is_no_excuse_for_one_node():
    slots = usual_slots([survey(), survey(nic_link=RISER), survey()])
    assert slots[0].gb_s == pytest.approx(slot_gb_s(Link(32.0, 16)))


def test_slots_that_all_have_half_the_lanes_are_what_a_path_must_be_held_against():
    slots = usual_slots([survey(nic_link=RISER)] * 3)
    assert slots[0].gb_s == pytest.approx(slot_gb_s(Link(32.0, 8)))
    assert slots[0].name == "the slot of 0000:01:10.0 (32 GT/s x8)"
    assert slots[1].gb_s == pytest.approx(slot_gb_s(Link(32.0, 16)))


def test_a_slot_that_trained_badly_counts_as_what_it_can_do():
    assert usual_slots([survey(nic_link=HALF)] * 3) == usual_slots([survey(nic_link=FULL)] * 3)


def test_a_slot_that_is_not_shown_limits_nothing():
    unknown = ["Unknown", "0", "Unknown", "0"]
    assert set(usual_slots([survey(nic_link=unknown)])) == {1}
    assert usual_slots([survey(software=True)]) == {}


def test_a_narrow_slot_lowers_what_its_rail_must_reach_and_no_other():
    nodes = site_nodes(FleetShape(4, gpus=2, rails=2, per_leaf=2))
    found = site_ceilings(nodes, {1: SlotLimit(27.6, "the slot of 17:00.0 (32 GT/s x8)")})
    assert found.of_path is not None
    one, other = nodes[0].name, nodes[1].name
    assert found.of_path(PathKey(one, other, 1, 1)) == found.of_path(PathKey(one, other, 0, 1))
    assert found.of_path(PathKey(one, other, 1, 1)) == 27.6
    assert found.of_path(PathKey(one, other, 0, 0)) > 48
    assert "the slot of 17:00.0 (32 GT/s x8) carries 27.6 GB/s" in found.expected


def test_each_rail_has_the_gpu_under_its_switch():
    assert near_gpus({"a": survey()}) == {("a", 0): "gpu0", ("a", 1): "gpu1"}


def test_two_rails_under_one_switch_have_a_gpu_each():
    own = survey()
    rails = [dict(own.said["rails"][0]), dict(own.said["rails"][0])]
    gpus = [{"index": number, "path": device(1, 1 + number), "numa": 0} for number in (0, 1)]
    said = {**own.said, "rails": rails, "gpus": gpus}
    assert near_gpus({"a": replace(own, said=said)}) == {("a", 0): "gpu0", ("a", 1): "gpu1"}


def test_a_gpu_behind_the_cpu_is_not_near():
    own = survey()
    said = {**own.said, "gpus": [{"index": 0, "path": device(9, 1), "numa": 0}]}
    assert near_gpus({"a": replace(own, said=said)}) == {}
