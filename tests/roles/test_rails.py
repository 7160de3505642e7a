"""Rails are found whatever their names; a node that does not fit is refused."""

import json
from pathlib import Path

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import NodeError
from plugins.module_utils.pcie import apply, boot
from plugins.module_utils.plan import NotYet, Refused
from plugins.module_utils.rails import Rail, find, rdma_of
from plugins.module_utils.roles import fabric, mtu, nccl
from tests.roles import config_space, nccl_node, pcie_node
from tests.roles.fabric_node import arguments as fabric_arguments
from tests.roles.fake import FakeMachine

PCI = "0000:18:00.0"


def names(machine: FakeMachine, *described: dict[str, str]) -> list[tuple[str, str]]:
    return [(rail.netdev, rail.rdma) for rail in find(machine, list(described))]


def test_representors_and_partitions_are_no_rails(machine: FakeMachine):
    machine.nic("ens1np0", PCI, "mlx5_0", 2)
    machine.nic("eth5", PCI, "", 3)
    machine.put("/sys/class/net/eth5/phys_port_name", "c1pf0vf3\n")
    machine.nic("ib0.8001", PCI, "", 4)
    machine.put("/sys/class/net/ib0.8001/iflink", "2\n")
    assert names(machine, {"pci": PCI.upper()}) == [("ens1np0", "mlx5_0")]


def test_pci_function_with_two_ports_is_refused(machine: FakeMachine):
    machine.nic("ens1", PCI, "mlx4_0", 2)
    machine.nic("ens1d1", PCI, "", 3)
    with pytest.raises(Refused, match=f"{PCI} has several.* netdev: ens1 or netdev: ens1d1 in"):
        find(machine, [{"pci": PCI}])
    assert names(machine, {"netdev": "ens1"}) == [("ens1", "mlx4_0")]


def test_pci_function_without_driver_may_get_one(machine: FakeMachine):
    Path(machine.path(f"/sys/bus/pci/devices/{PCI}")).mkdir(parents=True)
    with pytest.raises(NotYet, match="has no network device; is its driver loaded"):
        find(machine, [{"pci": PCI}])


def test_device_that_is_two_rails_is_refused(machine: FakeMachine):
    machine.nic("ens1", PCI, "mlx5_0")
    with pytest.raises(Refused, match="rail 0 and rail 1 are both the network device ens1"):
        find(machine, [{"netdev": "ens1"}, {"pci": PCI}])


def bond(machine: FakeMachine) -> None:
    machine.nic("bond0", rdma="mlx5_bond_0", index=4)
    machine.put("/sys/class/net/bond0/bonding/mode", "802.3ad 4\n")
    for index, netdev in enumerate(("ens1f0", "ens1f1"), start=2):
        machine.nic(netdev, f"0000:18:00.{index - 2}", "", index)
        machine.link(f"/sys/class/net/{netdev}/master", "/sys/devices/virtual/net/bond0")
        machine.put(f"/sys/class/infiniband/mlx5_bond_0/device/net/{netdev}/ifindex")


def test_bond_is_a_rail_and_its_ports_are_none(machine: FakeMachine):
    bond(machine)
    assert names(machine, {"netdev": "bond0"}) == [("bond0", "mlx5_bond_0")]
    with pytest.raises(Refused, match=r"ens1f1 is a port of bond0 .* Write netdev: bond0"):
        find(machine, [{"netdev": "ens1f1"}])


def test_rdma_device_that_is_two_rails_is_refused(machine: FakeMachine):
    for index, netdev in enumerate(("ens1", "ens1d1"), start=2):
        machine.nic(netdev, PCI, "", index)
        machine.put(f"/sys/class/infiniband/mlx4_0/device/net/{netdev}/ifindex")
    with pytest.raises(Refused, match=r"rail 0 \(ens1\) and rail 1 \(ens1d1\) are one RDMA device"):
        find(machine, [{"netdev": "ens1"}, {"netdev": "ens1d1"}])


def test_vlan_has_the_rdma_device_below_it(machine: FakeMachine):
    machine.nic("ens1", PCI, "rocep24s0", 2)
    machine.nic("ens1.100", index=3)
    machine.put("/sys/class/net/ens1.100/uevent", "DEVTYPE=vlan\n")
    machine.link("/sys/class/net/ens1.100/lower_ens1", "/sys/class/net/ens1")
    assert names(machine, {"netdev": "ens1.100"}) == [("ens1.100", "rocep24s0")]


def test_gid_without_network_device_is_none(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch):
    machine.nic("ib0", PCI, "", 2)
    machine.put("/sys/class/infiniband/ibp24s0/device/net/ib0/ifindex")
    read = machine.read

    def refuse_ndevs(name: str) -> str | None:
        if name.endswith("/ndevs/0"):
            raise NodeError(f"{name} cannot be read: Invalid argument")
        return read(name)

    monkeypatch.setattr(machine, "read", refuse_ndevs)
    assert rdma_of(machine, "ib0") == "ibp24s0"


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    """Provide a node of two NUMA nodes and 2 TiB, less its kernel's share, with two GPUs."""
    machine.nic("ens1", PCI, "mlx5_0")
    machine.put("/sys/class/net/ens1/type", "1\n")
    machine.put("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n")
    machine.put("/proc/meminfo", f"MemTotal:  {int((2 << 30) * 0.98)} kB\n")
    for name in ("node0", "node1", "node2", "has_cpu"):
        machine.put(f"/sys/devices/system/node/{name}/x")
    # On a Grace Hopper the GPU's memory is a node too, and the kernel does not use it.
    machine.put("/sys/devices/system/node/has_normal_memory", "0-1\n")
    for slot, vendor in (("01", "0x10de"), ("02", "0x10de"), ("03", "0x1a03")):
        machine.put(f"/sys/bus/pci/devices/0000:{slot}:00.0/vendor", vendor + "\n")
        machine.put(f"/sys/bus/pci/devices/0000:{slot}:00.0/class", "0x030200\n")
    return machine


def require(node: FakeMachine, **described: object) -> None:
    rails = [Rail(0, "ens1", "mlx5_0", PCI, "", "")]
    known = {"kind": "roce", "memory_bytes": 2 << 40, "numa_nodes": 2, "gpu_count": 2}
    fabric.require(node, rails, {**known, **described})


def test_node_that_fits_is_let_through(node: FakeMachine):
    require(node)
    require(node, memory_bytes=None, numa_nodes=None, gpu_count=0)


LINK_LAYER = "/sys/class/infiniband/mlx5_0/ports/1/link_layer"


@pytest.mark.parametrize(
    ("described", "file", "cause", "message"),
    [
        ({"kind": "infiniband"}, "", Refused, "ens1 has the hardware type 1, expected 32 for fabr"),
        ({"memory_bytes": (2 << 40) * 17 // 16}, "", Refused, r"has 2007\.0 GiB of .* 2176\.0"),
        ({"numa_nodes": 4}, "", Refused, "has 2 NUMA nodes, expected 4"),
        ({"gpu_count": 8}, "", Refused, "has 2 GPUs, expected 8"),
        ({"gpu_count": 1}, "", Refused, "has 2 GPUs, expected 1"),
        ({}, LINK_LAYER, Refused, "mlx5_0 has the link layer InfiniBand, expected Ethernet"),
        ({}, "/proc/meminfo", NodeError, "memory is not known"),
    ],
)
def test_node_that_does_not_fit_is_refused(node, described, file, cause, message):
    if file:
        node.put(file, "InfiniBand\n")
    with pytest.raises(cause, match=message):
        require(node, **described)


RAILS = [{"rdma": "mlx5_0"}, {"rdma": "mlx5_1"}]
KIND = {"kind": "infiniband", "rails": RAILS}


@pytest.fixture
def by_rdma(machine: FakeMachine) -> FakeMachine:
    for index, name in enumerate(("mlx5_0", "mlx5_1")):
        place = f"/sys/devices/pci0000:00/0000:0{index + 3}:00.0"
        machine.put(f"{place}/infiniband/{name}/ports/1/link_layer", "InfiniBand\n")
        machine.link(f"{place}/infiniband/{name}/device", place)
        machine.link(f"/sys/bus/pci/devices/0000:0{index + 3}:00.0", place)
        machine.link(f"/sys/class/infiniband/{name}", f"{place}/infiniband/{name}")
    machine.nic("eno1", "0000:01:00.0")
    machine.programs["ibv_devinfo"] = "active_mtu:\t\t4096 (5)\n"
    return machine


def test_fabric_and_mtu_need_no_network_device(by_rdma: FakeMachine):
    wanted = fabric_arguments(**KIND, ipoib=False)
    assert not converge(by_rdma, fabric, wanted, check=False)["changed"]
    assert not converge(by_rdma, mtu, {**wanted, "rdma_bytes": 4096}, check=False)["changed"]


@pytest.mark.parametrize("role", [fabric, mtu])
def test_ipoib_needs_one(by_rdma: FakeMachine, role):
    wanted = {**fabric_arguments(**KIND, ipoib=True), "mtu_bytes": 2044}
    with pytest.raises(NotYet, match="rail 0: mlx5_0 has no network device; is ib_ipoib loaded"):
        converge(by_rdma, role, wanted, check=False)


def test_nccl_takes_their_names(by_rdma: FakeMachine):
    wanted = nccl_node.arguments(**KIND, ib_tc=0)
    assert not converge(by_rdma, nccl, wanted, check=False)["warnings"]
    assert "NCCL_IB_HCA==mlx5_0,mlx5_1" in nccl_node.body(by_rdma)


def test_name_that_another_card_could_get_is_warned_of(by_rdma: FakeMachine):
    by_rdma.put("/sys/class/infiniband/mlx5_2/ports/1/link_layer", "Ethernet\n")
    found = converge(by_rdma, nccl, nccl_node.arguments(**KIND, ib_tc=0), check=False)["warnings"]
    assert [text for text in found if "fabric_rails: the kernel counts mlx5_0, mlx5_1" in text]
    by_pci = [{"pci": "0000:03:00.0"}, {"pci": "0000:04:00.0"}]
    wanted = nccl_node.arguments(kind="infiniband", ib_tc=0, rails=by_pci)
    assert not converge(by_rdma, nccl, wanted, check=False)["warnings"]


def test_pcie_of_the_card_is_set_now_and_at_each_boot(machine, monkeypatch):
    by_rdma = pcie_node.made(machine, monkeypatch)
    by_rdma.remove("/sys/class/net/ens1")
    place = by_rdma.real(f"/sys/bus/pci/devices/{pcie_node.NIC}")
    by_rdma.put(f"{place}/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n")
    by_rdma.link(f"{place}/infiniband/mlx5_0/device", place)
    by_rdma.link("/sys/class/infiniband/mlx5_0", f"{place}/infiniband/mlx5_0")
    rails = RAILS[:1]
    done = pcie_node.said(pcie_node.run(by_rdma, rails=rails))
    assert ("running", f"mlx5_0 {pcie_node.NIC}", "MaxReadReq") in done
    assert not pcie_node.run(by_rdma, rails=rails)["changed"]
    assert json.loads(by_rdma.read(boot.DESCRIPTION) or "")["rails"] == rails
    assert 'SUBSYSTEM=="net|infiniband"' in (by_rdma.read(boot.RULE) or "")
    config_space.put(by_rdma, place.removeprefix("/sys/devices/"), config_space.made_up(512))
    assert "MaxReadReq" in apply.main(by_rdma, boot.DESCRIPTION)
