"""A rail that is a bond or a VLAN: silent where its ports are right, and each fault found."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.validate.fake_node import FakeNode
from tests.validate.hardware import counted, netdev_files, nic, qos
from tests.validate.healthy import CABLE, QUERY, RAILS
from tests.validate.runner import Judge, hosts_of, judge, table, wrong
from tests.validate.switches import announced
from tests.validate.test_faults import alter

from rdmaprov.inventory import Node

WAY = RAILS["ens1"][1]
SECOND = "0000:18:00.1"
SECOND_END = ("leaf-r1", "swp1")
PLACE = "/sys/devices/pci0000:15/" + "/".join(WAY)


def stacked(node: FakeNode, name: str, port: str, **files: str) -> None:
    """Have rail 0's network device on top of the port that it was."""
    for path in node.files_with("ens1"):
        node.replace_all(path, "ens1", name)
    node.rename_all("ens1", name)
    node.rename(f"{PLACE}/net/{name}", f"{PLACE}/net/{port}")
    node.remove(f"/sys/class/net/{name}")
    node.link(f"/sys/class/net/{port}", f"{PLACE}/net/{port}")
    virtual = f"/sys/devices/virtual/net/{name}"
    node.put_all(virtual, netdev_files("90", "198.18.0.1") | files)
    node.link(f"/sys/class/net/{name}", virtual)
    for what in ("app", "pfc", "ets", "buffer", "dcbx"):
        node.answer(f"dcb -N -j {what} show dev {name}", "", "Operation not supported", 1)
    node.answer(f"ethtool -S {name}", "", "no stats available", 94)


def bonded(node: FakeNode) -> str:
    """Have rail 0 be LACP over two ports of 200G of a card, with the RDMA device of its LAG."""
    for path in node.files_with("mlx5_0"):
        node.replace_all(path, "mlx5_0", "mlx5_bond_0")
    node.rename_all("mlx5_0", "mlx5_bond_0")
    stacked(
        node,
        "bond0",
        "ens1f0",
        uevent="DEVTYPE=bond",
        **{"bonding/slaves": "ens1f0 ens1f1", "bonding/mode": "802.3ad 4"},
    )
    nic(node, "ens1f1", (*WAY[:-1], SECOND), "mlx5_9x", 0, "198.18.0.1")
    for netdev, rdma in (("ens1f0", "mlx5_bond_0"), ("ens1f1", "mlx5_9x")):
        qos(node, netdev, rdma)
        counted(node, netdev, rdma)
        node.put(f"/sys/class/net/{netdev}/speed", "200000\n")
    node.remove("/sys/class/infiniband/mlx5_9x")  # the LAG's is on the first port alone
    node.remove(f"{PLACE[: -len(WAY[-1])]}{SECOND}/infiniband")
    node.remove("/sys/kernel/config/rdma_cm/mlx5_9x")
    node.answer(f"mstconfig -d {SECOND} -e query", QUERY)
    node.answer(f"mlxlink -d {SECOND} -m -c", CABLE.read_text())
    ends = {"ens1f0": ("leaf-r0", "swp1"), "ens1f1": ("leaf-r0", "swp51"), "ens2": SECOND_END}
    node.answer("lldpctl -f json0", announced(ends))
    # LACP may bring one connection on either port.
    for tool, packets in (("ib_write_bw", (1002, 0)), ("rping", (100, 151))):
        lines = [
            f"bond0 ens1f{port}:rx_prio3_packets {count}\n" for port, count in enumerate(packets)
        ]
        others = "ens2 ens2:rx_prio3_packets 1002\n"
        node.put(f"/.answers/traffic/{tool}", "".join(lines) + others)
    return "bond0"


def tagged(node: FakeNode) -> str:
    """Have rail 0 be VLAN 100, whose addresses alone name it in the GID table."""
    stacked(node, "ens1.100", "ens1", uevent="DEVTYPE=vlan", iflink=str(int(WAY[-1][5:7], 16)))
    qos(node, "ens1", "mlx5_0")
    counted(node, "ens1", "mlx5_0")
    node.answer("lldpctl -f json0", announced({"ens1": ("leaf-r0", "swp1"), "ens2": SECOND_END}))
    for index in (0, 1):
        node.put(f"/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/{index}", "ens1\n")
    for tool in ("ib_write_bw", "rping"):
        node.replace_all(f"/.answers/traffic/{tool}", "ens1.100:", "ens1:")
    node.put(
        "/etc/systemd/network/10-ens1.network",
        "[Match]\nName=ens1\n\n[Link]\nMTUBytes=9216\n\n[Network]\nVLAN=ens1.100\n",
    )
    return "ens1.100"


@pytest.fixture(params=[bonded, tagged])
def shape(request: pytest.FixtureRequest) -> Callable[[FakeNode], str]:
    made: Callable[[FakeNode], str] = request.param
    return made


def on(judged: Judge, netdev: str, **rail: Any) -> Node:
    first, *others = judged.node.rails
    return replace(judged.node, rails=(replace(first, netdev=netdev, **rail), *others))


@pytest.mark.program
def test_healthy_one_is_silent_and_nothing_is_skipped_for_it(judged, changed, nodes, shape):
    outcomes = judged(node=on(judged, shape(changed)))
    assert wrong(outcomes) == []
    skipped = {o.test for o in outcomes if o.state == "skipped"}
    healthy = judge(judged.suite, judged.fleet, hosts_of(nodes))
    assert skipped == {o.test for o in healthy if o.state == "skipped"}


FAULTS = table("bond_faults.yml")


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_of_a_bonds_second_port_is_found(judged, changed, fault):
    node = on(judged, bonded(changed))
    alter({"gpu1": changed}, node, FAULTS[fault]["do"])
    ((test, said),) = FAULTS[fault]["red"].items()
    (found,) = wrong(judged(test, node=node))
    assert said in found


def test_active_backup_has_the_rate_of_one_port(judged, changed):
    netdev = bonded(changed)
    changed.put("/sys/class/net/bond0/bonding/mode", "active-backup 1\n")
    found = wrong(judged("test_links.py::test_rate", node=on(judged, netdev)))
    assert "ens1f0 mlx5_bond_0: running: rate Gb/s is 200, expected 400" in found[0]


def test_bond_without_ports_is_unknown(judged, changed):
    netdev = bonded(changed)
    changed.put("/sys/class/net/bond0/bonding/slaves", "\n")
    (found,) = wrong(judged("test_roce_qos.py::test_trust", node=on(judged, netdev)))
    assert "rail 0: bond0 has no port" in found


@pytest.mark.parametrize("text", ["MTUBytes=1500", ""])
def test_vlan_whose_parent_starts_with_a_smaller_mtu_is_found(judged, changed, text):
    netdev = tagged(changed)
    changed.replace("/etc/systemd/network/10-ens1.network", "MTUBytes=9216", text)
    (found,) = wrong(judged("test_mtu.py::test_mtu_after_reboot", node=on(judged, netdev)))
    assert "gpu1 ens1: after reboot: MTU is" in found
    assert "expected at least 9000, as ens1.100 is a VLAN on it" in found


def test_vlans_parent_without_pfc_is_found(judged, changed):
    netdev = tagged(changed)
    no_pfc = {"set": "dcb -N -j pfc show dev ens1", "to": {"prio_pfc": [False] * 8}}
    alter({"gpu1": changed}, judged.node, no_pfc)
    (found,) = wrong(
        judged("test_roce_qos.py::test_pfc_only_on_lossless_priority", node=on(judged, netdev))
    )
    assert "gpu1 ens1: running: PFC is on for priority none" in found


def test_bond_of_two_ports_of_400g_is_800g_whatever_its_rdma_device_says(judged, changed):
    """RDMA devices of a LAG show the rate of one port; a port of another rate is red."""
    netdev = bonded(changed)
    for port in ("ens1f0", "ens1f1"):
        changed.put(f"/sys/class/net/{port}/speed", "400000\n")
    names = ("test_links.py::test_rate", "test_links.py::test_pcie_link")
    fast = on(judged, netdev, link_gbps=800)
    found = wrong(judged(*names, node=fast))
    assert len(found) == 1
    assert "461 Gb/s of data, expected 800 Gb/s (" in found[0]
    changed.put("/sys/class/net/ens1f1/speed", "200000\n")
    found = wrong(judged(*names, node=fast))
    assert any("ens1f1" in each and "200, expected 400" in each for each in found)
