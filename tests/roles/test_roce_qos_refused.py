"""What the role roce_qos refuses, waits for and leaves alone; ports below a rail; the link."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from plugins.module_utils.machine import NodeError
from plugins.module_utils.plan import NotYet, Refused
from plugins.module_utils.qos import install, link, program
from plugins.module_utils.qos.link import Link
from plugins.module_utils.systemd import escape
from tests.roles.card import Tools
from tests.roles.fake import FakeMachine
from tests.roles.qos_node import CC, CM, DESCRIPTION, UNIT, QosNode, run


@pytest.fixture
def node(tmp_path: Path) -> QosNode:
    return QosNode.made(tmp_path / "node")


@pytest.mark.parametrize(
    "state", [{"ActiveState": "active"}, {"ActiveState": "inactive", "UnitFileState": "enabled"}]
)
def test_lldpad_is_refused_or_masked(node: QosNode, state: dict[str, str]):
    node.units["lldpad.service"] = state
    with pytest.raises(Refused, match="systemctl mask --now lldpad"):
        run(node)
    assert not node.port.entries
    assert run(node, lldpad="mask")["changes"][0]["device"] == "lldpad.service"
    assert node.units["lldpad.service"]["UnitFileState"] == "masked"
    assert not run(node, lldpad="refuse")["changed"]


def test_what_the_firmware_agreed_on_is_refused_where_it_may(node: QosNode):
    node.port.host = False
    with pytest.raises(Refused, match="ens1: PFC is off, expected 3, and the firmware agrees"):
        run(node, dcbx="firmware")
    assert node.port.pfc == [False] * 8
    run(node, dcbx="host")
    assert node.port.host
    run(node, dcbx="firmware")
    assert not node.port.host
    assert [line for line in node.ran if line.startswith("mlnx_qos -i ens1 -d fw")]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda node: node.put("/sys/class/net/ens1/type", "32\n"), "its link layer is InfiniBand"),
        (
            lambda node: node.link("/sys/class/net/ens1/device/physfn", "/sys/devices/pci0000:00"),
            "it is a virtual function",
        ),
    ],
)
def test_port_that_has_no_dcb_is_left_alone_and_marked(node: QosNode, make: Any, why: str):
    make(node)
    del node.tools.ports["ens1"]
    assert [line for line in run(node)["notes"] if f"ens1: it has no DCB: {why}" in line]
    assert node.value(CM + "default_roce_tos") == "106"
    assert not run(node)["changed"]


def test_port_that_could_have_dcb_waits_for_its_driver(node: QosNode):
    del node.tools.ports["ens1"]
    with pytest.raises(NotYet, match="it has no DCB, although it is a port"):
        run(node)


def test_mlnx_qos_is_taken_where_only_that_can(node: QosNode):
    node.put("/sys/class/net/ens1/qos/trust", "pcp\n")
    run(node)
    assert not [line for line in node.ran if line.startswith("dcb ")]
    assert node.port.entries


def test_rail_without_an_rdma_device_waits_for_it_when_all_else_is_right(node: QosNode):
    node.remove("/sys/class/infiniband/rocep24s0/ports/1/gid_attrs/ndevs/0")
    with pytest.raises(NotYet, match="ens1: it has no RDMA device"):
        run(node)
    assert node.port.pfc[3]


LEFT_ALONE = pytest.mark.parametrize(
    ("given", "note"),
    [({"kind": "infiniband"}, "InfiniBand"), ({"backend": "keep"}, "QoS is left as it is")],
)


@LEFT_ALONE
def test_what_is_not_ours_to_set_is_left_alone(node: QosNode, given: dict[str, Any], note: str):
    result = run(node, **given)
    assert not result["changed"]
    assert note in result["notes"][0]
    assert node.ran == []


@LEFT_ALONE
def test_units_of_a_former_rail_are_removed(node: QosNode, given: dict[str, Any], note: str):
    run(node)
    assert note in run(node, **given)["notes"][0]
    assert not node.exists(DESCRIPTION)
    assert node.units[UNIT]["UnitFileState"] == "disabled"


def bond(node: QosNode) -> None:
    """Have a LAG over ens1 and ens2, whose RDMA device is on the function of its first port."""
    node.nic("ens2", pci="0000:18:00.1", index=4)
    node.put("/sys/class/net/ens2/type", "1\n")
    node.nic("bond0", index=5)
    node.put("/sys/class/net/bond0/bonding/mode", "802.3ad 4\n")
    node.put("/sys/class/infiniband/rocep24s0/ports/1/gid_attrs/ndevs/0", "bond0\n")
    node.put("/sys/class/infiniband/rocep24s0/device/net/ens1")
    for netdev in ("ens1", "ens2"):
        node.put(f"/sys/class/net/bond0/lower_{netdev}")
        node.link(f"/sys/class/net/{netdev}/master", "/sys/devices/virtual/net/bond0")
    node.tools = Tools(node, ["ens1", "ens2"])


def test_bond_has_its_ports_set(node: QosNode):
    bond(node)
    run(node, rails=[{"netdev": "bond0"}])
    assert [port.pfc[3] for port in node.tools.ports.values()] == [True, True]
    names = ("bond0", "ens1", "ens2")
    assert {f"rdmaprov-roce-qos@{name}.service" for name in names} <= set(node.units)
    assert not run(node, rails=[{"netdev": "bond0"}])["changed"]


def test_unit_of_a_bonds_second_port_needs_no_rdma_device(node: QosNode):
    """The LAG's device is on the first one: nothing is missing."""
    bond(node)
    run(node, rails=[{"netdev": "bond0"}])
    assert not [line for line in program.apply(node, "ens2") if ", is " in line]


def test_kernels_dcqcn_of_a_bond_is_that_of_its_first_port(node: QosNode):
    bond(node)
    for name in ("np_cnp_dscp", "np_cnp_prio", "np_cnp_prio_mode", "rp_ai_rate"):
        node.put(CC + name, "0\n")
    result = run(node, rails=[{"netdev": "bond0"}], dcqcn={"rp_ai_rate": 9})
    assert node.value(CC + "rp_ai_rate") == "9"
    assert any(each.startswith("ens2: ECN and CNPs: the kernel") for each in result["notes"])


@pytest.mark.parametrize(
    ("name", "unit"),
    [("ens1f0np0", "ens1f0np0"), ("ens1.100", "ens1.100"), ("br-lan", "br\\x2dlan")],
)
def test_units_name_of_a_netdev(name: str, unit: str):
    assert escape(name) == unit
    assert install.unit_of(name) == f"rdmaprov-roce-qos@{unit}.service"


def test_way_to_the_node_is_taken_back_by_a_timer(node: QosNode):
    node.programs["ip -j -4 route show default"] = '[{"dst":"default","dev":"ens1"}]'
    node.programs |= {"systemd-run ": "", "sh -c ip": ""}
    result = run(node, guard_allowed_netdevs=["ens1"])
    script = node.read("/run/rdmaprov/revert/" + result["confirm"]) or ""
    assert "dcb app flush dev ens1 dscp-prio\n" in script
    assert "ethtool -A ens1 rx on tx on\n" in script
    assert node.port.pfc[3]
    assert not node.exists(DESCRIPTION)  # only what is confirmed is set at boot


@pytest.fixture
def flapping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    for name, value in {"_SETTLE_S": 0.2, "_RETURN_S": 1.0, "_PAUSE_S": 0.01}.items():
        monkeypatch.setattr(link, name, value)
    made_up = FakeMachine(tmp_path)
    made_up.nic("ens1", "0000:18:00.0", rdma="mlx5_0")
    shows(made_up, "1", 2)
    return made_up


def shows(flapping: FakeMachine, carrier: str, changes: int, state: str = "4: ACTIVE") -> None:
    flapping.put("/sys/class/net/ens1/carrier", carrier + "\n")
    flapping.put("/sys/class/net/ens1/carrier_changes", f"{changes}\n")
    flapping.put("/sys/class/infiniband/mlx5_0/ports/1/state", state + "\n")


def after(monkeypatch: pytest.MonkeyPatch, events: list[Callable[[], None]]) -> list[float]:
    """Have events happen, one at each pause; return the pauses."""
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if events:
            events.pop(0)()

    monkeypatch.setattr("plugins.module_utils.qos.link.time.sleep", sleep)
    return pauses


def test_link_that_goes_and_comes_back_is_waited_for(flapping, monkeypatch):
    port = Link(flapping, "ens1")
    events = [
        lambda: shows(flapping, "0", 3, "1: DOWN"),
        lambda: shows(flapping, "1", 4, "2: INIT"),
        lambda: shows(flapping, "1", 4),
    ]
    pauses = after(monkeypatch, events)
    port.await_return("its PFC changed")
    assert len(pauses) == 3


def test_link_that_does_not_go_is_not_waited_for_long(flapping, monkeypatch):
    pauses: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(pauses), sleep=pauses.append)
    monkeypatch.setattr(link, "time", clock)
    Link(flapping, "ens1").await_return("its PFC changed")
    assert sum(pauses) == pytest.approx(link._SETTLE_S, abs=2 * link._PAUSE_S)


def test_link_that_stays_down_is_an_error(flapping: FakeMachine):
    port = Link(flapping, "ens1")
    shows(flapping, "0", 3, "1: DOWN")
    why = r"ens1: its link is still down 1 s after its PFC changed\. Run on"
    with pytest.raises(NodeError, match=why):
        port.await_return("its PFC changed")


def test_link_that_was_down_before_is_not_waited_for(flapping, monkeypatch):
    shows(flapping, "0", 3, "1: DOWN")
    pauses = after(monkeypatch, [])
    Link(flapping, "ens1").await_return("its PFC changed")
    assert pauses == []
