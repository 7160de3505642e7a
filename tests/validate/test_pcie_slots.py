"""PCIe links of cards: what shares a slot, what idles, and what has a second way to memory."""

from dataclasses import replace

import pytest
from tests.validate.fake_node import FakeNode
from tests.validate.hardware import function, nic
from tests.validate.healthy import RAILS
from tests.validate.runner import ends

WAY = RAILS["ens1"][1]
TEST = "test_links.py::test_pcie_link"
FUNCTION = f"/sys/bus/pci/devices/{WAY[-1]}"


@pytest.fixture
def said(judged):
    def ask(rails=None, **site):
        return ends(
            judged(TEST, node=replace(judged.node, rails=rails or judged.node.rails), **site)
        )

    return ask


def on_one_card(fleet, changed):
    nic(changed, "ens1f1", (*WAY[:-1], "0000:18:00.1"), "mlx5_7", 0, "198.18.1.1")
    first, second = fleet.nodes[0].rails
    return first, replace(second, netdev="ens1f1", pci="")


def test_rails_of_one_card_share_its_slot(said, fleet, changed):
    rails = on_one_card(fleet, changed)
    found = said(rails=rails)
    assert [state for state, _ in found] == ["failed", "failed"]
    assert "461 Gb/s of data, expected 800 Gb/s of rails 0, 1" in found[0][1]
    slower = tuple(replace(each, link_gbps=200) for each in rails)
    assert {state for state, _ in said(rails=slower)} == {"passed"}


def test_card_that_is_wired_so_on_purpose_is_waived_and_still_carries_each_rail(
    said, fleet, changed
):
    rails = on_one_card(fleet, changed)
    waiver = [{"rule": "rails.slot", "reason": "two ports for two planes"}]
    found = said(rails=rails, fabric_waivers=waiver)
    assert {state for state, _ in found} == {"passed"}
    changed.put(f"{FUNCTION}/current_link_width", "8\n")
    found = said(rails=rails, fabric_waivers=waiver)
    assert found[0][0] == "failed"
    assert "expected 400 Gb/s (" in found[0][1]


def idle(changed: FakeNode) -> None:
    changed.put(f"{FUNCTION}/current_link_speed", "2.5 GT/s PCIe\n")


def half(changed: FakeNode) -> None:
    for name in ("current", "max"):
        changed.put(f"{FUNCTION}/{name}_link_width", "8\n")


def data_direct(changed: FakeNode) -> None:
    half(changed)
    place = function(changed, ("0000:90:01.0", "0000:91:00.0"), 0, "0x15b3", "0x080100")
    changed.put(f"{place}/modalias", "pci:v000015B3d00002100sv000015B3sd00000208bc08sc01i00\n")


def two_slots(changed: FakeNode) -> None:
    half(changed)
    nic(changed, "ens8", ("0000:90:01.0", "0000:91:00.0"), "mlx5_7", 0, "")
    for name in ("mlx5_0", "mlx5_7"):
        changed.put(f"/sys/class/infiniband/{name}/sys_image_guid", "a088:c203:0001:0001\n")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (idle, "idles at 2.5 GT/s x16"),
        (data_direct, "0000:91:00.0 is a Data Direct way"),
        (two_slots, "its card is in a second slot, too: 0000:91:00.0"),
    ],
)
def test_what_says_nothing_of_a_load_is_unknown(said, changed, change, words):
    change(changed)
    (state, text), other = said()
    assert (state, other[0]) == ("error", "passed")
    assert words in text


def test_card_of_half_the_lanes_is_red_and_one_that_idles_too(said, changed):
    half(changed)
    assert said()[0][0] == "failed"
    idle(changed)
    assert said()[0][0] == "failed"


@pytest.mark.parametrize(("speed", "width"), [("16.0", "1"), ("5.0", "16")])
def test_uplink_that_data_to_the_gpu_does_not_pass(said, changed, speed, width):
    """The uplinks of switches on OCI's GB300 and H100 nodes."""
    place = "/sys/bus/pci/devices/0000:16:00.0"
    for name in ("current", "max"):
        changed.put(f"{place}/{name}_link_speed", f"{speed} GT/s PCIe\n")
        changed.put(f"{place}/{name}_link_width", f"{width}\n")
    assert said()[0][0] == "passed"
    changed.remove("/sys/bus/pci/devices/0000:19:00.0")
    assert said()[0][0] == "failed"


def test_two_hdr_ports_of_one_card_of_pcie_4(said, fleet, changed):
    """As a public report of a ConnectX-6 VPI has them: both ports reached what one alone did."""
    rails = tuple(replace(each, link_gbps=200) for each in on_one_card(fleet, changed))
    for address in (WAY[-1], "0000:18:00.1"):
        for name in ("current", "max"):
            changed.put(f"/sys/bus/pci/devices/{address}/{name}_link_speed", "16.0 GT/s PCIe\n")
    found = said(rails=rails)
    assert [state for state, _ in found] == ["failed", "failed"]
    assert "230 Gb/s of data, expected 400 Gb/s of rails 0, 1" in found[0][1]


def test_port_of_200g_over_two_slots_of_four_lanes(said, fleet, changed):
    """As GB10 has its ConnectX-7: four RDMA devices of one card, in two PCI domains."""
    two_slots(changed)
    for name in ("current", "max"):
        changed.put(f"{FUNCTION}/{name}_link_width", "4\n")
    first, second = fleet.nodes[0].rails
    found = said(rails=(replace(first, link_gbps=200), second))
    assert [state for state, _ in found] == ["error", "passed"]
    assert "its card is in a second slot, too" in found[0][1]
