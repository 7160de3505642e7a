"""What node/path_reader.py reads of a node, on a made-up tree of sysfs."""

from dataclasses import replace

import pytest
from tests.madeup.shape import FleetShape
from tests.madeup.site import site_nodes
from tests.unit.helpers import verbs_tree
from tests.unit.helpers.discovered import FULL, HALF, device, survey
from tests.unit.helpers.local_node import local_probe
from tests.unit.helpers.verbs_tree import PATH, write

from rdmaprov.acceptance.ask import shapes
from rdmaprov.acceptance.ask.nodes import ask_nodes, program_command
from rdmaprov.acceptance.paths.ceilings import site_ceilings
from rdmaprov.acceptance.paths.pci import near_gpus, usual_slots
from rdmaprov.facts.pci_links import Link
from rdmaprov.perftest.expected import SlotLimit
from rdmaprov.perftest.loopback import slot_gb_s
from rdmaprov.perftest.matrix import PathKey

V1, V2 = "IB/RoCE v1", "RoCE v2"
LINK_LOCAL = "fe80:0000:0000:0000:0e42:a1ff:fe00:0001"
FIRST, SECOND = (f"0000:0000:0000:0000:0000:ffff:0a00:000{n}" for n in (1, 2))


@pytest.fixture
def tree(monkeypatch, tmp_path):
    return verbs_tree.use(monkeypatch, tmp_path / "sys")


@pytest.fixture
def read(tree):
    assert tree.port.is_dir()
    with local_probe("n0") as probe:

        def ask(device: str = "mlx5_0", address: str = "10.0.0.2"):
            rails = [{"device": device, "address": address}]
            document = {"programs": ["no-such-program"], "rails": rails}
            command = program_command("path_reader", document, 60)
            check = shapes.path_survey(1, ("no-such-program",))
            answer = ask_nodes(probe, {"n0": command}, lambda _: check)["n0"]
            assert isinstance(answer, dict), answer
            return answer

        yield ask


@pytest.mark.parametrize(
    ("gids", "chosen"),
    [
        ([(0, V1, LINK_LOCAL), (1, V2, LINK_LOCAL), (2, V2, FIRST), (3, V2, SECOND)], 3),
        ([(0, V1, SECOND), (1, V2, SECOND)], 1),
        ([(0, V2, LINK_LOCAL), (5, V2, FIRST)], 5),
        ([(0, V1, LINK_LOCAL), (1, V2, LINK_LOCAL)], 1),
        ([(0, V1, SECOND)], -1),
        ([(0, V2, "no gid")], -1),
        ([], -1),
    ],
)
def test_the_gid_is_of_roce_v2_and_of_the_rails_address_if_there_is_one(tree, read, gids, chosen):
    for gid in gids:
        tree.add_gid(*gid)
    assert read()["rails"][0]["gid"] == chosen


def test_infiniband_needs_no_gid(tree, read):
    write(tree.port / "link_layer", "InfiniBand")
    tree.add_gid(0, V2, SECOND)
    assert read()["rails"][0]["gid"] == -1


def test_a_rail_has_its_rate_its_numa_node_and_the_links_on_its_way(read):
    rail = read()["rails"][0]
    assert (rail["rate"], rail["numa"]) == ("400 Gb/sec (4X NDR)", 1)
    assert [hop["address"] for hop in rail["path"]] == list(PATH)
    assert rail["path"][0]["link"] == ["32.0 GT/s PCIe", "8", "32.0 GT/s PCIe", "16"]


def test_a_device_without_a_function_has_no_way(tree, read):
    (tree.port.parents[1] / "device").unlink()
    assert read()["rails"][0]["path"] == []
    assert read(device="")["rails"][0]["device"] == ""


def test_numa_nodes_have_memory_and_processors(read):
    assert read()["numa"] == [0]


def test_a_program_that_is_not_there_is_not_asked(read):
    assert read()["programs"] == {"no-such-program": {"there": False, "help": []}}


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
    assert set(usual_slots([survey(nic_link=["Unknown", "0", "Unknown", "0"])])) == {1}
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
