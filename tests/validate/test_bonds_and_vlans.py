"""A rail that is a bond or a VLAN: silent where its ports are right, and each fault found."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.validate.fake_node import FakeNode
from tests.validate.hardware import config_space, counted, mac, nic, qos
from tests.validate.healthy import CABLE, QUERY, RAILS
from tests.validate.runner import FakeHosts, judge
from tests.validate.switches import announced

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
    attributes = {
        "mtu": "9000",
        "flags": "0x1003",
        "type": "1",
        "ifindex": "90",
        "iflink": "90",
        "address": mac("198.18.0.1"),
        "speed": "400000",
        "carrier": "1",
        "carrier_changes": "2",
        **files,
    }
    for file, text in attributes.items():
        node.put(f"/sys/devices/virtual/net/{name}/{file}", text + "\n")
    node.link(f"/sys/class/net/{name}", f"/sys/devices/virtual/net/{name}")
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


def judged(suite, fleet, nodes, changed, netdev, names=None):
    node = fleet.nodes[0]
    node = replace(node, rails=(replace(node.rails[0], netdev=netdev), *node.rails[1:]))
    hosts = FakeHosts({"gpu1": changed.host(), "gpu2": nodes["gpu2"].host()})
    fleet = replace(fleet, nodes=(node, *fleet.nodes[1:]))
    return judge(suite, fleet, hosts, only=node, names=names)


def wrong(outcomes):
    return [f"{o.test} {o.said}" for o in outcomes if o.state in ("failed", "error")]


@pytest.mark.program
def test_healthy_one_is_silent_and_nothing_is_skipped_for_it(suite, fleet, nodes, changed, shape):
    outcomes = judged(suite, fleet, nodes, changed, shape(changed))
    assert wrong(outcomes) == []
    skipped = {o.test for o in outcomes if o.state == "skipped"}
    assert skipped == {o.test for o in judge(suite, fleet, _hosts(nodes)) if o.state == "skipped"}


def _hosts(nodes):
    return FakeHosts({name: node.host() for name, node in nodes.items()})


def put(path: str, text: str) -> Callable[[FakeNode], None]:
    return lambda node: node.put(path, text)


def counts(name: str, seen: str) -> Callable[[FakeNode], None]:
    return lambda node: node.replace("/.answers/ethtool/-S_ens1f1", f"{name}: 0", f"{name}: {seen}")


def shows(command: str, **to: object) -> Callable[[FakeNode], None]:
    def alter(node: FakeNode) -> None:
        node.answer(command, json.dumps({**node.shown(command), **to}))

    return alter


NET = "/sys/class/net/ens1f1"
FUNCTION = f"/sys/bus/pci/devices/{SECOND}"
UNIT = "rdmaprov-roce-qos@ens1f1.service"
WANTS = f"/etc/systemd/system/sys-subsystem-net-devices-ens1f1.device.wants/{UNIT}"
NO_PFC = [False] * 8
FAULTS = {
    "pfc": (
        shows("dcb -N -j pfc show dev ens1f1", prio_pfc=NO_PFC),
        "test_roce_qos.py::test_pfc_only_on_lossless_priority",
        "gpu1 ens1f1: running: PFC is on for priority none, expected 3",
    ),
    "trust": (
        shows("dcb -N -j app show dev ens1f1", dscp_prio=[]),
        "test_roce_qos.py::test_trust",
        "gpu1 ens1f1: running: trust is pcp, expected dscp",
    ),
    "ecn": (
        put(f"{NET}/ecn/roce_rp/enable/3", "0\n"),
        "test_roce_qos_marking.py::test_ecn_on_lossless_priority",
        "gpu1 ens1f1: running: ECN of priorities 0 to 7 (roce_rp)",
    ),
    "description": (
        lambda node: node.remove("/etc/rdmaprov/roce_qos/ens1f1.json"),
        "test_roce_qos_marking.py::test_qos_after_reboot",
        "gpu1 ens1f1: after reboot: trust is absent",
    ),
    "unit": (
        lambda node: node.unit(UNIT, ActiveState="failed"),
        "test_roce_qos_marking.py::test_unit_ran",
        "gpu1 ens1f1: running: QoS unit is failed",
    ),
    "unit-disabled": (
        lambda node: node.remove(WANTS),
        "test_roce_qos_marking.py::test_unit_is_enabled_after_reboot",
        "gpu1 ens1f1: after reboot: QoS unit is",
    ),
    "carrier": (
        put(f"{NET}/carrier", "0\n"),
        "test_links.py::test_physical_link_is_up",
        "gpu1 ens1f1 (of bond0): running: carrier is down, expected up",
    ),
    "speed": (
        put(f"{NET}/speed", "100000\n"),
        "test_links.py::test_rate",
        "gpu1 ens1f1 mlx5_bond_0: running: rate Gb/s is 100, expected 200",
    ),
    "flaps": (
        put(f"{NET}/carrier_changes", "4000\n"),
        "test_links.py::test_link_does_not_flap",
        "gpu1 ens1f1: running: changes of the carrier is 4000",
    ),
    "errors": (
        lambda node: node.put("/.answers/sleep", "ens1f1 rx_crc_errors_phy 4711\n"),
        "test_links.py::test_counters_are_those_of_a_good_link",
        "gpu1 ens1f1 mlx5_bond_0: running: rise of rx_crc_errors_phy in 5 s is 4711",
    ),
    "lanes": (
        put(f"{FUNCTION}/current_link_width", "8\n"),
        "test_links.py::test_pcie_width",
        "gpu1 ens1f1 mlx5_bond_0: running: PCIe link above 0000:18:00.1 is 32 GT/s x8",
    ),
    "pcie": (  # enough for one port, but the card's other port is behind the same link
        put(f"{FUNCTION}/current_link_width", "8\n"),
        "test_links.py::test_pcie_link",
        "gpu1 ens1f1 mlx5_bond_0: running: PCIe link above 0000:18:00.1 is 32 GT/s x8, 230 Gb/s "
        "of data, expected 400 Gb/s",
    ),
    "read-request": (
        lambda node: node.put(f"{FUNCTION}/config", config_space(bridge=False, read_request=2)),
        "test_pcie.py::test_max_read_request",
        "gpu1 0000:18:00.1: running: MaxReadReq bytes is 512, expected 4096",
    ),
    "firmware": (
        lambda node: node.answer(
            f"mstconfig -d {SECOND} -e query", QUERY.replace("255                 255", "0   0")
        ),
        "test_mlx5.py::test_firmware_settings_running",
        "gpu1 0000:18:00.1: running: ROCE_CC_PRIO_MASK_P1 is 0, expected 255",
    ),
    "shaper": (
        lambda node: node.answer(
            "tc -j qdisc show", '[{"kind": "netem", "dev": "ens1f1", "root": true}]'
        ),
        "test_links.py::test_nothing_holds_packets_back",
        "gpu1 ens1f1: running: queueing discipline that shapes is netem",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_of_a_bonds_second_port_is_found(suite, fleet, nodes, changed, fault):
    netdev = bonded(changed)
    alter, test, said = FAULTS[fault]
    alter(changed)
    (found,) = wrong(judged(suite, fleet, nodes, changed, netdev, frozenset([test])))
    assert said in found


def test_active_backup_has_the_rate_of_one_port(suite, fleet, nodes, changed):
    netdev = bonded(changed)
    changed.put("/sys/class/net/bond0/bonding/mode", "active-backup 1\n")
    names = frozenset(["test_links.py::test_rate"])
    found = wrong(judged(suite, fleet, nodes, changed, netdev, names))
    assert "ens1f0 mlx5_bond_0: running: rate Gb/s is 200, expected 400" in found[0]


def test_bond_without_ports_is_unknown(suite, fleet, nodes, changed):
    netdev = bonded(changed)
    changed.put("/sys/class/net/bond0/bonding/slaves", "\n")
    names = frozenset(["test_roce_qos.py::test_trust"])
    (found,) = wrong(judged(suite, fleet, nodes, changed, netdev, names))
    assert "rail 0: bond0 has no port" in found


@pytest.mark.parametrize("text", ["MTUBytes=1500", ""])
def test_vlan_whose_parent_starts_with_a_smaller_mtu_is_found(suite, fleet, nodes, changed, text):
    netdev = tagged(changed)
    changed.replace("/etc/systemd/network/10-ens1.network", "MTUBytes=9216", text)
    names = frozenset(["test_mtu.py::test_mtu_after_reboot"])
    (found,) = wrong(judged(suite, fleet, nodes, changed, netdev, names))
    assert "gpu1 ens1: after reboot: MTU is" in found
    assert "expected at least 9000, as ens1.100 is a VLAN on it" in found


def test_vlans_parent_without_pfc_is_found(suite, fleet, nodes, changed):
    netdev = tagged(changed)
    shows("dcb -N -j pfc show dev ens1", prio_pfc=NO_PFC)(changed)
    names = frozenset(["test_roce_qos.py::test_pfc_only_on_lossless_priority"])
    (found,) = wrong(judged(suite, fleet, nodes, changed, netdev, names))
    assert "gpu1 ens1: running: PFC is on for priority none" in found


def test_bond_of_two_ports_of_400g_is_800g_whatever_its_rdma_device_says(
    suite, fleet, nodes, changed
):
    """RDMA devices of a LAG show the rate of one port; a port of another rate is red."""
    netdev = bonded(changed)
    for port in ("ens1f0", "ens1f1"):
        changed.put(f"/sys/class/net/{port}/speed", "400000\n")
    node = fleet.nodes[0]
    rail = replace(node.rails[0], link_gbps=800)
    fast = replace(fleet, nodes=(replace(node, rails=(rail, *node.rails[1:])), *fleet.nodes[1:]))
    names = frozenset({"test_links.py::test_rate", "test_links.py::test_pcie_link"})
    found = wrong(judged(suite, fast, nodes, changed, netdev, names))
    assert len(found) == 1
    assert "461 Gb/s of data, expected 800 Gb/s (" in found[0]
    changed.put("/sys/class/net/ens1f1/speed", "200000\n")
    found = wrong(judged(suite, fast, nodes, changed, netdev, names))
    assert any("ens1f1" in each and "200, expected 400" in each for each in found)
