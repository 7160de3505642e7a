"""What the role fabric refuses, and leaves as it was."""

from __future__ import annotations

import pytest
from plugins.module_utils.machine import CommandFailed, NodeError
from plugins.module_utils.plan import Refused
from plugins.module_utils.roles import fabric
from tests.roles.fabric_node import RAILS, apply, with_ip, with_two_rails
from tests.roles.fake import FakeMachine
from tests.roles.iproute import IpRoute


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    return with_two_rails(machine)


@pytest.fixture
def ip(node: FakeMachine) -> IpRoute:
    return with_ip(node)


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ({"ens1": ["192.0.2.7/24"]}, r"ens1: has 192\.0\.2\.7/24, expected 198\.18\.0\.1/24 alone"),
        ({"eno1": ["198.18.0.1/24"]}, r"eno1: has 198\.18\.0\.1/24, expected on rail 0, ens1"),
    ],
)
def test_address_that_the_site_does_not_name_is_refused(
    node: FakeMachine, ip: IpRoute, links: dict[str, list[str]], message: str
):
    ip.links.update(links)
    with pytest.raises(Refused, match=message):
        apply(node)
    assert not node.exists(fabric.OWN_FILE)


def test_address_of_another_machine_is_refused(node: FakeMachine, ip: IpRoute):
    apply(node)
    ip.flags["fd00:1::1/64"] = ["dadfailed"]
    with pytest.raises(Refused, match="ens2: another machine has fd00:1::1/64 too"):
        apply(node)


def test_table_with_routes_of_others_is_refused(node: FakeMachine, ip: IpRoute):
    ip.routes["-4", "1000"] = ["default via 10.0.2.2 dev eno1"]
    with pytest.raises(Refused, match="routing table 1000 has a route of another device"):
        apply(node)
    assert ip.links["ens1"] == ["fe80::1/64"]


@pytest.mark.parametrize("base", [0, 254, 253])
def test_the_kernels_tables_are_refused(node: FakeMachine, ip: IpRoute, base: int):  # noqa: ARG001
    with pytest.raises(Refused, match="belongs to the kernel"):
        apply(node, routing_table_base=base)


def test_routes_that_cannot_be_read_are_an_error(node: FakeMachine, ip: IpRoute):  # noqa: ARG001
    node.programs["ip -N -j -4 route show"] = CommandFailed(["ip"], 2, "Permission denied")
    with pytest.raises(CommandFailed, match="Permission denied"):
        apply(node)


def test_router_without_source_routing_is_refused(node: FakeMachine, ip: IpRoute):  # noqa: ARG001
    with pytest.raises(Refused, match=r"a gateway .* is only used with"):
        apply(node, source_routing=False)


@pytest.mark.parametrize(
    "line",
    [
        "net.ipv4.conf.ens1.arp_ignore=0",
        "net/ipv4/conf/ens1/rp_filter = 1",
        "-net.ipv4.conf.ens1.arp_announce = 1",
    ],
)
def test_later_sysctl_file_that_says_otherwise_is_refused(
    node: FakeMachine,
    ip: IpRoute,  # noqa: ARG001
    line: str,
):
    node.put("/etc/sysctl.d/95-site.conf", f"# ours\n{line}\n")
    with pytest.raises(Refused, match=r"95-site\.conf:2: sets .*ens1.* at boot, after"):
        apply(node)


def test_way_to_the_node_is_refused_before_it_is_touched(node: FakeMachine, ip: IpRoute):
    rails = [RAILS[0], {"netdev": "eno1", "address": "10.0.2.15/24"}]
    with pytest.raises(
        Refused, match="eno1 is on the management path: the default gateway uses it"
    ):
        apply(node, rails=rails)
    assert ip.links["ens1"] == ["fe80::1/64"]


def test_profile_that_has_the_way_to_the_node_is_not_replaced(node: FakeMachine, ip: IpRoute):
    node.put("/run/NetworkManager/conf.d/x")
    node.programs["nmcli -g GENERAL.STATE device show"] = "100 (connected)\n"
    node.programs["nmcli -g GENERAL.CONNECTION device show eno1"] = "Wired connection 1\n"
    rails = [{"netdev": "eno1", "address": "10.0.2.15/24"}]
    with pytest.raises(Refused, match="profile 'Wired connection 1' has the management path"):
        apply(node, rails=rails, guard_allowed_netdevs=["eno1"])
    assert ip.links["eno1"] == ["10.0.2.15/24"]
    assert not node.exists("/etc/NetworkManager")


def test_rule_that_cannot_be_added_is_a_failure(
    node: FakeMachine, ip: IpRoute, monkeypatch: pytest.MonkeyPatch
):
    def refuses(family: str, words: list[str]) -> None:  # noqa: ARG001
        raise CommandFailed(["ip", "rule", "add"], 2, "RTNETLINK answers: Operation not permitted")

    monkeypatch.setattr(ip, "_rule_add", refuses)
    with pytest.raises(NodeError, match="Operation not permitted"):
        apply(node)


def test_advertised_address_stays(node: FakeMachine, ip: IpRoute):
    ip.links["ens1"] = ["2001:db8::5/64"]
    ip.flags["2001:db8::5/64"] = ["dynamic"]
    apply(node)
    assert "2001:db8::5/64" in ip.links["ens1"]
