"""IPoIB's mode: set now and for the next boot, and refused where a port has no connected one."""

from typing import Any

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.fabric import partition
from plugins.module_utils.links import Addressing
from plugins.module_utils.machine import NodeError
from plugins.module_utils.plan import Plan, Refused
from plugins.module_utils.rails import Rail
from plugins.module_utils.roles import mtu
from tests.roles.fake import FakeMachine, given
from tests.roles.links_node import (
    apply,
    with_ifupdown,
    with_netplan,
    with_network_manager,
    with_networkd,
)

from rdmaprov.facts import link_files
from rdmaprov.facts.text import Files

MODE = "/sys/class/net/ens1/mode"
ENHANCED = "/sys/module/ib_ipoib/parameters/ipoib_enhanced"
RAIL = Rail(0, "ens1", "mlx5_0", "0000:18:00.0", "", "")


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    machine.nic("ens1", "0000:18:00.0", "mlx5_0", index=3)
    machine.put("/sys/class/net/ens1/type", "32\n")
    machine.put("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n")
    machine.put(MODE, "datagram\n")
    machine.programs["networkctl --version"] = "systemd 252 (252.39-1~deb12u1)\n"
    return machine


def planned(node: FakeMachine, mode: str) -> Plan:
    plan = Plan(node)
    partition.plan_mode(plan, [RAIL], mode)
    return plan


def test_mode_is_set_in_the_running_kernel(node: FakeMachine):
    plan = planned(node, "connected")
    assert [(each["seen"], each["wanted"]) for each in plan.changes()] == [
        ("datagram", "connected")
    ]
    for step in plan.steps:
        step.do()
    assert node.value(MODE) == "connected"
    assert not planned(node, "connected").steps


def test_site_without_a_mode_leaves_it_alone(node: FakeMachine):
    for kind, used, mode in (
        ("infiniband", True, "keep"),
        ("infiniband", False, "connected"),
        ("roce", True, "connected"),
    ):
        assert partition.mode_of({"kind": kind, "ipoib": used, "ipoib_mode": mode}) == ""
    assert not planned(node, "").steps


def test_enhanced_port_has_no_connected_mode(node: FakeMachine):
    place = "/sys/devices/pci0000:00/0000:18:00.0"
    node.put("/sys/bus/pci/drivers/mlx5_core/new_id")
    node.link(f"{place}/driver", "/sys/bus/pci/drivers/mlx5_core")
    node.put(ENHANCED, "1\n")
    with pytest.raises(Refused, match="ens1: enhanced IPoIB, as ConnectX-4 and later have it"):
        planned(node, "connected")
    assert not planned(node, "datagram").steps
    node.put(ENHANCED, "0\n")
    assert planned(node, "connected").steps


def test_kernel_that_does_not_take_it_says_why(node: FakeMachine, monkeypatch: pytest.MonkeyPatch):
    """EINVAL, as the inbox driver has it for enhanced ports, which shows no parameter."""

    def refuse(name: str, value: str) -> None:
        raise NodeError(f"{name} rejects {value.strip()}: Invalid argument")

    (step,) = planned(node, "connected").steps
    monkeypatch.setattr(node, "set", refuse)
    with pytest.raises(NodeError, match="Invalid argument: enhanced IPoIB"):
        step.do()


def test_kernel_without_connected_mode_is_in_datagram_mode(node: FakeMachine):
    node.remove(MODE)
    assert not planned(node, "datagram").steps
    with pytest.raises(Refused, match="has no connected mode"):
        planned(node, "connected")


def used(node: FakeMachine, path: str) -> str:
    """Have systemd-networkd go by a file."""
    node.put("/run/systemd/netif/links/3", f"NETWORK_FILE={path}\n")
    return ""


@pytest.mark.parametrize(
    ("prepare", "path", "line"),
    [
        (with_networkd, "/etc/systemd/network/20-rdmaprov-ens1.network", "Mode=connected"),
        (
            with_network_manager,
            "/etc/NetworkManager/system-connections/rdmaprov-ens1.nmconnection",
            "transport-mode=connected",
        ),
        (with_netplan, "/etc/netplan/90-rdmaprov-ens1.yaml", "      infiniband-mode: connected"),
        (
            with_ifupdown,
            "/etc/network/interfaces.d/rdmaprov-fabric-ens1",
            f"    pre-up echo connected > {MODE}",
        ),
    ],
)
@pytest.mark.parametrize("address", ["", "198.18.0.1/24"])
def test_boot_sets_it_by_each_manager_as_the_suite_reads_it(node, prepare, path, line, address):
    prepare(node)
    if prepare is with_networkd:
        node.programs["networkctl reload"] = lambda _: used(node, path)
    apply(node, wanted=Addressing(address, ipoib_mode="connected"))
    text = node.read(path) or ""
    assert line in text.splitlines()
    boot = link_files.boot_settings(Files({path: text}, {}), "ens1")
    assert (boot.ipoib_mode, boot.files) == ("connected", (path,))


def test_mode_that_the_site_leaves_open_is_in_no_file(node: FakeMachine):
    with_ifupdown(node)
    apply(node, wanted=Addressing("198.18.0.1/24"))
    text = node.read("/etc/network/interfaces.d/rdmaprov-fabric-ens1") or ""
    assert "mode" not in text
    assert "address 198.18.0.1/24" in text


def test_older_systemd_is_refused(node: FakeMachine):
    with_networkd(node)
    node.programs["networkctl --version"] = "systemd 249 (249.11-0ubuntu3)\n"
    with pytest.raises(Refused, match="systemd 250 is the first that sets IPoIB's mode"):
        apply(node, wanted=Addressing("", ipoib_mode="connected"))


def mtu_arguments(**changed: object) -> dict[str, Any]:
    partition = {"kind": "infiniband", "ipoib_mode": "connected", "rails": [{"netdev": "ens1"}]}
    sizes = {"mtu_bytes": 65520, "rdma_bytes": 4096}
    return given("mtu", **{**partition, **sizes, "link_manager": "ifupdown", **changed})


def test_mtu_of_the_mode_to_come_is_planned_with_it(node: FakeMachine):
    """A plan of both roles comes before the mode is set."""
    with_ifupdown(node)
    node.programs.update({"ip -j": "[]", "ip link set dev": ""})
    assert converge(node, mtu, mtu_arguments(), check=True)["changed"]
    with pytest.raises(Refused, match="IPoIB in datagram mode has an MTU of at most 4092"):
        converge(node, mtu, mtu_arguments(ipoib_mode="keep"), check=True)
