"""ACS between a GPU and its other peers: GPUs, NVMe drives; and with an IOMMU that translates."""

from __future__ import annotations

import pytest
from tests.roles import config_space
from tests.roles.fake import FakeMachine
from tests.roles.pcie_node import GPU, GPU_PORT, NIC, NIC_PORT, SWITCH, Node, made, run

OTHER_PORT, OTHER = "0000:19:08.0", "0000:1c:00.0"


@pytest.fixture
def node(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> Node:
    return made(machine, monkeypatch)


@pytest.mark.parametrize(
    ("kind", "vendor"), [("0x030200", "0x10de"), ("0x120000", "0x1002"), ("0x010802", "0x144d")]
)
def test_redirects_between_a_gpu_and_another_peer_are_off(node: Node, kind: str, vendor: str):
    """Another GPU, or an NVMe drive, below the switch of a GPU; the rail's NIC is elsewhere."""
    node.remove(f"/sys/bus/pci/devices/{NIC}")
    config_space.put(node, f"{SWITCH}/{OTHER_PORT}", config_space.made_up(acs=0x1D))
    space = config_space.made_up()
    where = f"{SWITCH}/{OTHER_PORT}/{OTHER}"
    config_space.put(node, where, space, vendor=vendor, **{"class": kind})
    node.put("/sys/class/net/ens2/mtu", "1500\n")
    rails = [{"netdev": "ens2", "pci": None, "address": "198.18.0.1/24"}]
    run(node, rails=rails)
    assert (node.redirect(GPU_PORT), node.redirect(OTHER_PORT)) == (0x11, 0x11)
    assert node.redirect(NIC_PORT) == 0x1D
    assert not run(node, rails=rails)["changed"]


def test_other_device_below_the_switch_keeps_its_redirect(node: Node):
    config_space.put(node, f"{SWITCH}/{OTHER_PORT}", config_space.made_up(acs=0x1D))
    where = f"{SWITCH}/{OTHER_PORT}/{OTHER}"
    config_space.put(node, where, config_space.made_up(), vendor="0x1000", **{"class": "0x010700"})
    run(node)
    assert node.redirect(OTHER_PORT) == 0x1D


@pytest.mark.parametrize(
    ("mode", "acs", "warns"),
    [
        ("DMA-FQ", "off", True),
        ("DMA", "off", True),
        ("identity", "off", False),
        ("DMA-FQ", "keep", False),
    ],
)
def test_iommu_that_translates_is_warned_of(node: Node, mode: str, acs: str, *, warns: bool):
    node.put(f"/sys/bus/pci/devices/{GPU}/iommu_group/type", mode + "\n")
    said = run(node, acs_redirect=acs, check=True)["warnings"]
    assert [f"the IOMMU translates for {GPU} ({mode}" in each for each in said] == [True] * warns
