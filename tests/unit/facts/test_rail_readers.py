"""Roles, suite and what runs on nodes for discover and accept find the same devices of a rail.

Role and suite are written apart on purpose, and the program for nodes has no library; on the same
trees of sysfs, shaped as Linux has them, all three must agree.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from plugins.module_utils import rails as roles
from plugins.module_utils.plan import NotYet, Unsupported
from tests.roles.fake import FakeMachine
from tests.validate.fake_node import FakeNode

from rdmaprov.facts import lower_ports
from rdmaprov.facts import rails as suite
from rdmaprov.facts.devices import read
from rdmaprov.inventory import Rail
from rdmaprov.node import devices as node

PCI = "0000:18:00.0"
SECOND = "0000:18:00.1"
Tree = Callable[[FakeNode], None]


def place_of(pci: str) -> str:
    return f"/sys/devices/pci0000:17/0000:17:01.0/{pci}" if pci else "/sys/devices/virtual"


def net(tree: FakeNode, name: str, pci: str, index: int, lower: int = 0, **files: str) -> None:
    place = f"{place_of(pci)}/net/{name}"
    attributes = {"mtu": "9000", "ifindex": str(index), "iflink": str(lower or index), **files}
    for file, text in attributes.items():
        tree.put(f"{place}/{file}", text + "\n")
    tree.link(f"/sys/class/net/{name}", place)
    if pci:
        tree.link(f"{place}/device", place_of(pci))
        if not (tree.root / f"sys/bus/pci/devices/{pci}").exists():
            tree.link(f"/sys/bus/pci/devices/{pci}", place_of(pci))


def rdma(tree: FakeNode, name: str, pci: str, gid_device: str, parent: str = "") -> None:
    place = f"{place_of(pci)}/infiniband/{name}"
    tree.put(f"{place}/ports/1/gid_attrs/ndevs/0", f"{gid_device}\n" if gid_device else "")
    if parent:
        tree.put(f"{place}/parent", parent + "\n")
    if pci:
        tree.link(f"{place}/device", place_of(pci))
    tree.link(f"/sys/class/infiniband/{name}", place)


def plain(tree: FakeNode) -> None:
    net(tree, "ens1np0", PCI, 2)
    rdma(tree, "mlx5_0", PCI, "ens1np0")


def representors(tree: FakeNode) -> None:
    """In switchdev mode, with the ports of virtual functions and of the other host beside it."""
    net(tree, "a_rep", PCI, 5, phys_port_name="pf0vf3")
    net(tree, "b_rep", PCI, 6, phys_port_name="c1pf0")
    net(tree, "ens1np0", PCI, 2, phys_port_name="p0")
    rdma(tree, "mlx5_0", PCI, "ens1np0")


def partition(tree: FakeNode) -> None:
    """IPoIB: the partition is on the same function, and InfiniBand's GIDs name no device."""
    net(tree, "ibs1", PCI, 2)
    net(tree, "ibs1.8001", PCI, 3, lower=2)
    rdma(tree, "mlx5_0", PCI, "")


def infiniband(tree: FakeNode) -> None:
    """Have a port without IPoIB, beside one that is another rail."""
    tree.link(f"/sys/bus/pci/devices/{PCI}", place_of(PCI))
    rdma(tree, "mlx5_0", PCI, "")
    tree.put(f"{place_of(PCI)}/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n")
    net(tree, "ibs2", SECOND, 3)
    rdma(tree, "mlx5_1", SECOND, "")


def bond(tree: FakeNode) -> None:
    """Name the bond in the GID of a LAG device, which is on the function of its first port."""
    for index, pci in enumerate((PCI, SECOND), start=2):
        net(tree, f"ens1f{index - 2}", pci, index)
        tree.put(f"{place_of(pci)}/net/ens1f{index - 2}/master/bonding/mode", "802.3ad 4\n")
    net(tree, "bond0", "", 4)
    rdma(tree, "mlx5_bond_0", PCI, "bond0")


def vlan(tree: FakeNode) -> None:
    plain(tree)
    net(tree, "ens1.100", "", 7, lower=2, uevent="DEVTYPE=vlan\nINTERFACE=ens1.100")
    tree.link("/sys/devices/virtual/net/ens1.100/lower_ens1np0", "/sys/class/net/ens1np0")


def bond_without_gids(tree: FakeNode) -> None:
    """Have a LAG that is down: nothing names the bond yet, and the second port has no device."""
    bond(tree)
    tree.put(f"{place_of(PCI)}/infiniband/mlx5_bond_0/ports/1/gid_attrs/ndevs/0", "")
    stack(tree, "bond0", "bond", ("ens1f0", "ens1f1"))
    tree.put("/sys/devices/virtual/net/bond0/bonding/slaves", "ens1f0 ens1f1\n")


def bond_of_two_cards(tree: FakeNode) -> None:
    """Have no LAG: each port keeps a device of its own, and nobody can say which one it is."""
    bond_without_gids(tree)
    rdma(tree, "mlx5_7", SECOND, "")


def vlan_on_bond(tree: FakeNode) -> None:
    bond(tree)
    tree.put("/sys/devices/virtual/net/bond0/bonding/slaves", "ens1f0 ens1f1\n")
    net(tree, "bond0.7", "", 8, lower=4)
    stack(tree, "bond0.7", "vlan", ("bond0",))


def stack(tree: FakeNode, name: str, kind: str, lower: tuple[str, ...]) -> None:
    place = f"/sys/devices/virtual/net/{name}"
    tree.put(f"{place}/uevent", f"DEVTYPE={kind}\nINTERFACE={name}\n")
    for each in lower:
        tree.link(f"{place}/lower_{each}", f"/sys/class/net/{each}")


def soft_roce(tree: FakeNode) -> None:
    net(tree, "ens4", PCI, 2)
    rdma(tree, "rxe0", "", "", parent="ens4")


def without_rdma(tree: FakeNode) -> None:
    net(tree, "ens9", PCI, 2)
    net(tree, "ens1np0", SECOND, 3)
    rdma(tree, "mlx5_1", SECOND, "ens1np0")


SHAPES = [
    (plain, {"pci": PCI}, ("ens1np0", "mlx5_0")),
    (plain, {"netdev": "ens1np0"}, ("ens1np0", "mlx5_0")),
    (representors, {"pci": PCI}, ("ens1np0", "mlx5_0")),
    (partition, {"pci": PCI}, ("ibs1", "mlx5_0")),
    (partition, {"netdev": "ibs1.8001"}, ("ibs1.8001", "mlx5_0")),
    (partition, {"rdma": "mlx5_0"}, ("ibs1", "mlx5_0")),
    (partition, {"pci": PCI, "ipoib_pkey": "0x8001"}, ("ibs1.8001", "mlx5_0")),
    (partition, {"netdev": "ibs1", "ipoib_pkey": "0x8001"}, ("ibs1.8001", "mlx5_0")),
    (partition, {"rdma": "mlx5_0", "ipoib_pkey": "0x8001"}, ("ibs1.8001", "mlx5_0")),
    (infiniband, {"rdma": "mlx5_0"}, ("", "mlx5_0")),
    (infiniband, {"pci": PCI}, ("", "mlx5_0")),
    (infiniband, {"pci": PCI, "rdma": "mlx5_7"}, ("", "mlx5_0")),
    (infiniband, {"rdma": "mlx5_1"}, ("ibs2", "mlx5_1")),
    (bond, {"netdev": "bond0"}, ("bond0", "mlx5_bond_0")),
    (bond_without_gids, {"netdev": "bond0"}, ("bond0", "mlx5_bond_0")),
    (bond_of_two_cards, {"netdev": "bond0"}, ("bond0", "")),
    (vlan_on_bond, {"netdev": "bond0.7"}, ("bond0.7", "mlx5_bond_0")),
    (vlan, {"netdev": "ens1.100"}, ("ens1.100", "mlx5_0")),
    (soft_roce, {"netdev": "ens4"}, ("ens4", "rxe0")),
    (without_rdma, {"netdev": "ens9"}, ("ens9", "")),
]
IDS = [f"{shape.__name__}-by-{'-'.join(by.values())}" for shape, by, _ in SHAPES]


@pytest.fixture
def tree(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path / "node")


def by_roles(root: Path, described: dict[str, str]) -> tuple[str, str]:
    (rail,) = roles.find(FakeMachine(root), [described])
    return rail.netdev, rail.rdma


def by_suite(root: Path, described: dict[str, str]) -> tuple[str, str]:
    rail = described_rail(described)
    port = suite.port(FakeNode(root).host(), rail)
    return port.netdev, port.rdma


def on_node(root: Path, described: dict[str, str]) -> tuple[str, str]:
    netdev, rdma_device = node.rail_devices(str(root), described_rail(described).described)
    return str(netdev), str(rdma_device)


def described_rail(described: dict[str, str]) -> Rail:
    netdev, pci, rdma = (described.get(key, "") for key in ("netdev", "pci", "rdma"))
    key = described.get("ipoib_pkey", "")
    return Rail(0, netdev, pci, None, "", (), rdma=rdma, ipoib_pkey=key)


@pytest.mark.parametrize("read", [by_roles, by_suite, on_node])
@pytest.mark.parametrize(("shape", "described", "wanted"), SHAPES, ids=IDS)
def test_rail_is_found_by_all(tree, shape: Tree, described, wanted, read):
    shape(tree)
    assert read(tree.root, described) == wanted


@pytest.mark.parametrize(
    ("shape", "device", "netdev"),
    [
        (plain, "mlx5_0", "ens1np0"),
        (representors, "mlx5_0", "ens1np0"),
        (partition, "mlx5_0", "ibs1"),
        (bond, "mlx5_bond_0", "bond0"),
        (soft_roce, "rxe0", "ens4"),
    ],
)
def test_discover_finds_the_network_device_of_an_rdma_device(tree, shape: Tree, device, netdev):
    shape(tree)
    assert node.netdev_on(str(tree.root), device) == netdev


def test_function_with_two_ports_is_not_guessed(tree):
    net(tree, "ens1", PCI, 2)
    net(tree, "ens1d1", PCI, 3)
    assert node.netdev_at(str(tree.root), PCI) == ""


def test_partition_has_the_card_of_its_port(tree):
    """Wherever the kernel has its interface: one below no device is not on the function."""
    net(tree, "ibs1", PCI, 2)
    net(tree, "ibs1.8001", "", 3, lower=2)
    rdma(tree, "mlx5_0", PCI, "")
    rail = described_rail({"netdev": "ibs1", "ipoib_pkey": "0x8001"})
    here = read(FakeNode(tree.root).host())
    port = suite.port_of(here, rail)
    assert port == suite.Port(0, "ibs1.8001", "mlx5_0", PCI, "ibs1")
    assert suite.way_to(here, port)[-1] == PCI
    assert [each.pci for each in lower_ports.ports_of(here, rail)] == [PCI]


def test_partition_that_is_still_to_make_is_known_by_its_name(tree):
    plain(tree)
    described = {"pci": PCI, "ipoib_pkey": "0x8002"}
    assert by_roles(tree.root, described) == ("ens1np0.8002", "mlx5_0")
    with pytest.raises(suite.NoDevice, match=r"no network device ens1np0\.8002"):
        by_suite(tree.root, described)


def test_rdma_device_that_is_absent_is_no_rail(tree):
    infiniband(tree)
    described = {"rdma": "mlx5_9"}
    assert on_node(tree.root, described) == ("", "")
    with pytest.raises(NotYet, match=r"no RDMA device mlx5_9 .* has mlx5_0, mlx5_1"):
        by_roles(tree.root, described)
    with pytest.raises(suite.NoDevice, match=r"no RDMA device mlx5_9 .* has mlx5_0, mlx5_1"):
        by_suite(tree.root, described)


def test_ethernet_port_needs_its_network_device(tree):
    """On RoCE, a PCI function without one has no driver, whatever RDMA device is there."""
    infiniband(tree)
    tree.put(f"{place_of(PCI)}/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n")
    with pytest.raises(NotYet, match="has no network device"):
        by_roles(tree.root, {"pci": PCI})
    with pytest.raises(suite.NoDevice, match="has no network device"):
        by_suite(tree.root, {"pci": PCI})


def more_ports(tree: FakeNode, name: str, pci: str, ports: dict[int, dict[str, str]]) -> None:
    for number, files in ports.items():
        for file, text in files.items():
            tree.put(f"{place_of(pci)}/infiniband/{name}/ports/{number}/{file}", text + "\n")


_DOWN = {"link_layer": "Ethernet", "state": "1: DOWN"}
_UP = {"link_layer": "Ethernet", "state": "4: ACTIVE"}


def planes(tree: FakeNode) -> None:
    """ConnectX-8 with hardware planes: twelve ports, data on 3, 6, 9 and 12."""
    rdma(tree, "mlx5_0", PCI, "")
    for plane in range(4):
        net(tree, f"eth_r0_p{plane}", PCI, 2 + plane, phys_port_name=f"p{plane}")
    up = {3 * p + 3: {**_UP, "gid_attrs/ndevs/0": f"eth_r0_p{p}"} for p in range(4)}
    more_ports(tree, "mlx5_0", PCI, {**dict.fromkeys(range(1, 13), _DOWN), **up})


def second_port(tree: FakeNode) -> None:
    """ConnectX-3: one RDMA device with two ports, the second without a cable."""
    plain(tree)
    net(tree, "ens1d1", PCI, 3)
    more_ports(tree, "mlx5_0", PCI, {1: _UP, 2: {**_DOWN, "gid_attrs/ndevs/0": "ens1d1"}})


def two_ports_of_infiniband(tree: FakeNode) -> None:
    net(tree, "ibs1", PCI, 2)
    rdma(tree, "mlx5_0", PCI, "")
    layer = {"link_layer": "InfiniBand"}
    more_ports(tree, "mlx5_0", PCI, {1: layer, 2: {**layer, "state": "1: DOWN"}})


def switchdev(tree: FakeNode) -> None:
    """Have the uplink on port 1, a representor on port 2, and nobody on ports 3 and 4."""
    representors(tree)
    more_ports(tree, "mlx5_0", PCI, {1: _UP, 2: {**_UP, "gid_attrs/ndevs/0": "a_rep"}})
    more_ports(tree, "mlx5_0", PCI, {3: _DOWN, 4: _DOWN})


@pytest.mark.parametrize(
    ("shape", "described"),
    [
        (planes, {"netdev": "eth_r0_p0"}),
        (second_port, {"netdev": "ens1np0"}),
        (second_port, {"netdev": "ens1d1"}),
        (two_ports_of_infiniband, {"pci": PCI}),
        (two_ports_of_infiniband, {"rdma": "mlx5_0"}),
    ],
)
def test_device_with_data_on_other_ports_is_refused_by_all(tree, shape: Tree, described):
    shape(tree)
    with pytest.raises(Unsupported, match="multi-port or multi-plane"):
        by_roles(tree.root, described)
    with pytest.raises(suite.UnfitDevice, match="multi-port or multi-plane"):
        by_suite(tree.root, described)
    assert "multi-port or multi-plane" in node.unfit(str(tree.root), "mlx5_0")


def test_switchdev_uplink_on_port_1_is_fit(tree):
    switchdev(tree)
    assert {read({"netdev": "ens1np0"}) for read in readers(tree)} == {("ens1np0", "mlx5_0")}
    assert node.unfit(str(tree.root), "mlx5_0") == ""


def readers(tree: FakeNode) -> list[Callable[[dict[str, str]], tuple[str, str]]]:
    return [partial(each, tree.root) for each in (by_roles, by_suite, on_node)]


def xdr(tree: FakeNode, smi: str, *, verbs: bool) -> None:
    net(tree, "ibs192", PCI, 2)
    for name in ("mlx5_0", smi):
        rdma(tree, name, PCI, "")
    layer = {"link_layer": "InfiniBand", "state": "4: ACTIVE"}
    more_ports(tree, "mlx5_0", PCI, {1: layer})
    more_ports(tree, smi, PCI, dict.fromkeys(range(1, 5), layer))
    if verbs:
        tree.put("/sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n")


@pytest.mark.parametrize("described", [{"pci": PCI}, {"netdev": "ibs192"}, {"rdma": "mlx5_0"}])
@pytest.mark.parametrize("smi", ["smi1", "ibsmi_0", "a_plane"])
@pytest.mark.parametrize("verbs", [True, False])
def test_smi_device_is_no_rail(tree, smi, verbs, described):
    xdr(tree, smi, verbs=verbs)
    assert {read(described) for read in readers(tree)} == {("ibs192", "mlx5_0")}
    assert f"{smi} is the SMI device of mlx5_0" in node.unfit(str(tree.root), smi)
    with pytest.raises(Unsupported, match="SMI"):
        by_roles(tree.root, {"rdma": smi})
    with pytest.raises(suite.UnfitDevice, match="SMI"):
        by_suite(tree.root, {"rdma": smi})
