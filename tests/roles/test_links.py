"""The link managers: which has a device, and what each is told of a rail."""

import pytest
from plugins.module_utils.links import Addressing, Links
from plugins.module_utils.machine import CommandFailed, NodeError
from plugins.module_utils.plan import NotYet, Plan, Refused
from plugins.module_utils.roles import mtu
from tests.roles.fake import FakeMachine, given
from tests.roles.links_node import (
    ROUTED,
    STATE,
    apply,
    one_rail,
    rail,
    with_ifupdown,
    with_netplan,
    with_network_manager,
    with_networkd,
)
from tests.tables import cases


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    return one_rail(machine)


@pytest.mark.parametrize(
    ("managers", "name"),
    [
        ([with_networkd], "systemd-networkd"),
        ([with_network_manager], "NetworkManager"),
        ([with_ifupdown], "ifupdown"),
        ([with_networkd, with_netplan], "netplan"),
        ([with_networkd, with_network_manager], "NetworkManager"),
        ([with_networkd, lambda node: with_network_manager(node, "10 (unmanaged)")], "systemd-"),
        (
            [
                lambda node: with_networkd(node, "ADMIN_STATE=configured\n"),
                lambda node: with_network_manager(node, "100 (connected (externally))"),
            ],
            "systemd-networkd",
        ),
        ([lambda node: with_network_manager(node, "100 (connected (externally))")], "Network"),
        ([with_networkd, lambda n: with_ifupdown(n, "iface ens1 inet manual\n")], "ifupdown"),
    ],
)
def test_manager_is_the_one_that_has_the_device(node, managers, name):
    for manager in managers:
        assert callable(manager)
        manager(node)
    assert Links(node, "auto").of("ens1").name.startswith(name)


def test_device_of_two_managers_is_refused(node: FakeMachine):
    with_networkd(node, "ADMIN_STATE=configured\n")
    with_ifupdown(node, "iface ens1 inet static\n")
    with pytest.raises(Refused, match="ens1: both systemd-networkd and ifupdown configure it"):
        Links(node, "auto").of("ens1")
    assert Links(node, "ifupdown").of("ens1").name == "ifupdown"


@pytest.mark.parametrize("unmanaged", [False, True])
def test_device_that_nothing_manages_may_be_managed_later(node: FakeMachine, unmanaged: bool):
    if unmanaged:
        with_network_manager(node, "10 (unmanaged)")
    with pytest.raises(NotYet, match="ens1: no supported link manager manages it"):
        Links(node, "auto").of("ens1")


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (8, NotYet, "NetworkManager is installed and does not run: see journalctl"),
        (3, CommandFailed, "timeout"),
    ],
)
def test_network_manager_that_was_stopped_or_does_not_answer_is_named(node, code, error, said):
    with_network_manager(node)
    del node.programs["nmcli -g GENERAL.STATE device show ens1"]
    node.programs["nmcli -g GENERAL.STATE"] = CommandFailed(["nmcli"], code, "timeout")
    with pytest.raises(error, match=said):
        Links(node, "auto").of("ens1")


def test_wicked_is_named_where_it_configures_the_links(node: FakeMachine):
    unit = "/usr/lib/systemd/system/wicked.service"
    node.put(unit)
    node.link("/etc/systemd/system/network.service", unit)
    with pytest.raises(Refused, match="ens1: wicked configures this node's links"):
        Links(node, "auto").of("ens1")
    with_network_manager(node)
    assert Links(node, "auto").of("ens1").name == "NetworkManager"
    with_network_manager(node, "100 (connected (externally))\n")
    with pytest.raises(Refused, match="wicked"):
        Links(node, "auto").of("ens1")


def test_network_manager_gets_a_profile_of_ours(node: FakeMachine):
    with_network_manager(node)
    assert apply(node).interrupts == [
        "ens1 NetworkManager: its addresses are removed and added again, for about 1 s"
    ]
    path = "/etc/NetworkManager/system-connections/rdmaprov-ens1.nmconnection"
    text = node.read(path) or ""
    for line in (
        "interface-name=ens1",
        "address1=198.18.0.1/24",
        "route1=198.18.0.0/24\nroute1_options=table=1000",
        "route2=0.0.0.0/0,198.18.0.254\nroute2_options=table=1000",
        "routing-rule1=priority 1001 from 198.18.0.1 table 1000",
    ):
        assert line + "\n" in text
    assert node.mode(path) == 0o600
    assert node.ran[-2:] == [
        "nmcli --wait 60 connection up id rdmaprov-ens1 ifname ens1",
        "nmcli -g GENERAL.CONNECTION device show ens1",
    ]
    assert apply(node).steps == []


def test_profile_that_network_manager_does_not_use_is_an_error(node: FakeMachine):
    with_network_manager(node)
    node.programs["nmcli -g GENERAL.CONNECTION device show ens1"] = "Wired connection 1\n"
    with pytest.raises(
        NodeError, match="uses the profile 'Wired connection 1', expected rdmaprov-"
    ):
        apply(node)
    assert apply_again_sees(node) == ["files not read again"]


def apply_again_sees(node: FakeMachine) -> list[str]:
    plan, links = Plan(node), Links(node, "auto")
    links.of("ens1").address(plan, rail(), ROUTED)
    links.settle(plan)
    return [change["seen"] for change in plan.changes()]


def test_profile_of_an_infiniband_rail_has_its_type(node: FakeMachine):
    with_network_manager(node)
    node.put("/sys/class/net/ens1/type", "32\n")
    apply(node)
    text = node.read("/etc/NetworkManager/system-connections/rdmaprov-ens1.nmconnection") or ""
    assert "type=infiniband\n" in text
    assert "[infiniband]\ntransport-mode=datagram\n" in text


def test_netplan_gets_a_file_of_ours(node: FakeMachine):
    with_networkd(node)
    with_netplan(node)
    apply(node)
    path = "/etc/netplan/90-rdmaprov-ens1.yaml"
    assert '      addresses:\n        - "198.18.0.1/24"\n' in (node.read(path) or "")
    assert node.mode(path) == 0o600
    assert not [line for line in node.ran if line == "netplan generate"]  # writes all files
    assert "networkctl reload" in node.ran
    assert apply(node).steps == []


def test_netplan_for_network_manager_is_refused(node: FakeMachine):
    with_netplan(node, "network:\n  renderer: NetworkManager\n")
    with pytest.raises(Refused, match=r"50-cloud-init\.yaml makes NetworkManager configure links"):
        apply(node)
    assert node.names("/etc/netplan") == ["50-cloud-init.yaml"]
    apply(node, wanted=Addressing("198.18.0.1/24"))
    assert node.exists("/etc/netplan/90-rdmaprov-ens1.yaml")


def test_ifupdown_gets_a_stanza_of_ours(node: FakeMachine):
    with_ifupdown(node)
    apply(node)
    text = node.read("/etc/network/interfaces.d/rdmaprov-fabric-ens1") or ""
    assert "auto ens1\niface ens1 inet static\n    address 198.18.0.1/24\n" in text
    assert (
        "    up ip -4 rule add from 198.18.0.1 lookup 1000 priority 1001 protocol static\n" in text
    )
    assert node.ran == ["ifquery ens1"]
    assert apply(node).steps == []


@pytest.mark.parametrize(
    ("manager", "path", "line"),
    [
        (with_networkd, "systemd/network/20-rdmaprov-ens1.network.d/rdmaprov-mtu.conf", "MTUBytes"),
        (with_network_manager, "NetworkManager/conf.d/90-rdmaprov-mtu-ens1.conf", "ethernet.mtu"),
        (with_netplan, "netplan/91-rdmaprov-mtu-ens1.yaml", "      mtu: 4200"),
        (with_ifupdown, "network/interfaces.d/rdmaprov-mtu-ens1", "    up ip link set dev ens1"),
    ],
)
def test_mtu_has_a_file_of_its_own(node: FakeMachine, manager: object, path: str, line: str):
    assert callable(manager)
    manager(node)
    node.put("/sys/class/net/ens1/mtu", "4200\n")
    node.programs.update({"ip -j": "[]"})
    said = {"kind": "roce", "rails": [{"netdev": "ens1"}], "mtu_bytes": 4200, "rdma_bytes": 4096}
    for step in mtu.plan(node, given("mtu", **said)).steps:
        step.do()
    lines = (node.read("/etc/" + path) or "").splitlines()
    assert [each for each in lines if each.startswith(line) and "4200" in each]


def with_networkd_that_reads(node: FakeMachine) -> None:
    own = "/etc/systemd/network/20-rdmaprov-ens1.network"
    with_networkd(node)

    def reload(_: list[str]) -> str:
        node.put(STATE, f"NETWORK_FILE={own}\n")
        return ""

    node.programs["networkctl reload"] = reload


MANAGERS = {
    "networkd": with_networkd_that_reads,
    "NetworkManager": with_network_manager,
    "ifupdown": with_ifupdown,
}
OTHER_FAMILY = Addressing("198.18.0.1/32", "fe80::1", 1000, 1001)


@pytest.mark.parametrize(("manager", "gateway", "lines"), cases(__file__, "router"))
def test_router_is_reached_over_the_link(node, manager, gateway, lines):
    MANAGERS[manager](node)
    apply(node, wanted=Addressing("198.18.0.1/32", gateway, 1000, 1001))
    text = node.read(Links(node, "auto").of("ens1").fabric_file("ens1")) or ""
    assert lines in text
    # The address has no subnet, so no route leads to one.
    assert "198.18.0.1/32" in text
    assert "Destination=198" not in text
    assert "replace 198" not in text


def test_router_of_the_other_family_needs_a_manager_that_has_such(node: FakeMachine):
    with_network_manager(node)
    with pytest.raises(Refused, match=r"rail 0: NetworkManager has no IPv6 router \(fe80::1\)"):
        apply(node, wanted=OTHER_FAMILY)
