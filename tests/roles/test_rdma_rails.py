"""InfiniBand rails named by their RDMA devices alone, on a node without IPoIB."""

from __future__ import annotations

import json

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.pcie import apply, boot
from plugins.module_utils.plan import NotYet
from plugins.module_utils.roles import fabric, mtu, nccl
from tests.roles import config_space, nccl_node, pcie_node
from tests.roles.fabric_node import arguments as fabric_arguments
from tests.roles.fake import FakeMachine

RAILS = [{"rdma": "mlx5_0"}, {"rdma": "mlx5_1"}]
KIND = {"kind": "infiniband", "rails": RAILS}


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    for index, name in enumerate(("mlx5_0", "mlx5_1")):
        place = f"/sys/devices/pci0000:00/0000:0{index + 3}:00.0"
        machine.put(f"{place}/infiniband/{name}/ports/1/link_layer", "InfiniBand\n")
        machine.link(f"{place}/infiniband/{name}/device", place)
        machine.link(f"/sys/bus/pci/devices/0000:0{index + 3}:00.0", place)
        machine.link(f"/sys/class/infiniband/{name}", f"{place}/infiniband/{name}")
    machine.nic("eno1", "0000:01:00.0")
    machine.programs["ibv_devinfo"] = "active_mtu:\t\t4096 (5)\n"
    return machine


def test_fabric_and_mtu_need_no_network_device(node: FakeMachine):
    wanted = fabric_arguments(**KIND, ipoib=False)
    assert not converge(node, fabric, wanted, check=False)["changed"]
    assert not converge(node, mtu, {**wanted, "rdma_bytes": 4096}, check=False)["changed"]


@pytest.mark.parametrize("role", [fabric, mtu])
def test_ipoib_needs_one(node: FakeMachine, role):
    wanted = {**fabric_arguments(**KIND, ipoib=True), "mtu_bytes": 2044}
    with pytest.raises(NotYet, match="rail 0: mlx5_0 has no network device; is ib_ipoib loaded"):
        converge(node, role, wanted, check=False)


def test_nccl_takes_their_names(node: FakeMachine):
    wanted = nccl_node.arguments(**KIND, ib_tc=0)
    assert not converge(node, nccl, wanted, check=False)["warnings"]
    assert "NCCL_IB_HCA==mlx5_0,mlx5_1" in nccl_node.body(node)


def test_name_that_another_card_could_get_is_warned_of(node: FakeMachine):
    node.put("/sys/class/infiniband/mlx5_2/ports/1/link_layer", "Ethernet\n")
    found = converge(node, nccl, nccl_node.arguments(**KIND, ib_tc=0), check=False)["warnings"]
    assert [text for text in found if "fabric_rails: the kernel counts mlx5_0, mlx5_1" in text]
    by_pci = [{"pci": "0000:03:00.0"}, {"pci": "0000:04:00.0"}]
    wanted = nccl_node.arguments(kind="infiniband", ib_tc=0, rails=by_pci)
    assert not converge(node, nccl, wanted, check=False)["warnings"]


def test_pcie_of_the_card_is_set_now_and_at_each_boot(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
):
    node = pcie_node.made(machine, monkeypatch)
    node.remove("/sys/class/net/ens1")
    place = node.real(f"/sys/bus/pci/devices/{pcie_node.NIC}")
    node.put(f"{place}/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n")
    node.link(f"{place}/infiniband/mlx5_0/device", place)
    node.link("/sys/class/infiniband/mlx5_0", f"{place}/infiniband/mlx5_0")
    rails = RAILS[:1]
    done = pcie_node.said(pcie_node.run(node, rails=rails))
    assert ("running", f"mlx5_0 {pcie_node.NIC}", "MaxReadReq") in done
    assert not pcie_node.run(node, rails=rails)["changed"]
    described = json.loads(node.read(boot.DESCRIPTION) or "")
    assert described["rails"] == rails
    assert 'SUBSYSTEM=="net|infiniband"' in (node.read(boot.RULE) or "")
    config_space.put(node, place.removeprefix("/sys/devices/"), config_space.made_up(512))
    assert "MaxReadReq" in apply.main(node, boot.DESCRIPTION)
