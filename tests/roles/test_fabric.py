"""The rails' addresses, ARP and routing: each layer alone, second runs, cut runs, refusals."""

import copy

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import CommandFailed, NodeError
from plugins.module_utils.plan import NotYet, Refused
from plugins.module_utils.roles import fabric
from tests.roles.fabric_node import (
    ARP,
    NETWORK_FILE,
    RAILS,
    apply,
    arguments,
    reload,
    with_ip,
    with_two_rails,
)
from tests.roles.fake import FakeMachine
from tests.roles.iproute import IpRoute
from tests.tables import cases


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    return with_two_rails(machine)


@pytest.fixture
def ip(node: FakeMachine) -> IpRoute:
    return with_ip(node)


def settings(changes: list[dict[str, str]]) -> list[tuple[str, str, str]]:
    return [(each["layer"], each["device"], each["setting"]) for each in changes]


def test_rails_get_their_addresses_routes_and_rules(node: FakeMachine, ip: IpRoute):
    apply(node)
    assert ip.links["ens1"] == ["fe80::1/64", "198.18.0.1/24"]
    assert ip.links["ens2"] == ["fd00:1::1/64"]
    assert ip.up["ens1"]
    assert ip.routes == {
        ("-4", "1000"): ["198.18.0.0/24 dev ens1", "default via 198.18.0.254 dev ens1"],
        ("-6", "1001"): ["fd00:1::/64 dev ens2"],
    }
    assert ip.rules == {"-4": [(1000, "198.18.0.1", "1000")], "-6": [(1001, "fd00:1::1", "1001")]}
    assert [node.value(ARP + name) for name in fabric.SETTINGS] == ["1", "2", "2"]
    assert not node.names("/run/rdmaprov/unread/systemd-networkd")
    before = copy.deepcopy((ip.links, ip.routes, ip.rules))
    assert apply(node) == []
    assert (ip.links, ip.routes, ip.rules) == before


def test_infiniband_without_ipoib_is_left_alone(node: FakeMachine, ip: IpRoute):
    for netdev in ("ens1", "ens2"):
        node.put(f"/sys/class/net/{netdev}/type", "32\n")
        for name in node.names("/sys/class/infiniband"):
            node.put(f"/sys/class/infiniband/{name}/ports/1/link_layer", "InfiniBand\n")
    before = copy.deepcopy((ip.links, ip.up))
    rails = [{"netdev": "ens1"}, {"netdev": "ens2"}]
    wanted = {**arguments(), "kind": "infiniband", "ipoib": False, "rails": rails}
    assert not converge(node, fabric, wanted, check=False)["changed"]
    assert (ip.links, ip.up) == before


def test_boot_gives_what_runs(node: FakeMachine, ip: IpRoute):  # noqa: ARG001
    apply(node)
    text = node.read(NETWORK_FILE.format("ens1")) or ""
    for lines in cases(__file__, "network_file"):
        assert lines in text
    assert "net/ipv4/conf/ens1/arp_ignore = 1\n" in (node.read(fabric.OWN_FILE) or "")


def test_address_with_another_prefix_length_is_replaced(node: FakeMachine, ip: IpRoute):
    apply(node)
    ip.links["ens1"] = ["198.18.0.1/16"]
    assert converge(node, fabric, arguments(), check=True)["interrupts"] == [
        "ens1 198.18.0.1/16: connections from this address break, for good"
    ]
    assert {each["setting"] for each in apply(node)} == {"address"}
    assert ip.links["ens1"] == ["198.18.0.1/24"]
    assert len(ip.routes["-4", "1000"]) == 2


def test_route_of_an_old_router_goes(node: FakeMachine, ip: IpRoute):
    apply(node)
    apply(node, rails=[{**RAILS[0], "gateway": None}, RAILS[1]])
    assert ip.routes["-4", "1000"] == ["198.18.0.0/24 dev ens1"]


def test_rule_of_an_old_address_goes(node: FakeMachine, ip: IpRoute):
    ip.rules["-4"] = [(1000, "198.18.0.9", "1000"), (5, "198.18.0.9", "77")]
    apply(node)
    assert ip.rules["-4"] == [(5, "198.18.0.9", "77"), (1000, "198.18.0.1", "1000")]


def test_rule_that_networkd_adds_when_the_link_comes_up_is_no_failure(node, ip, monkeypatch):
    apply(node)
    rules = copy.deepcopy(ip.rules)
    ip.up["ens1"] = False
    ip.rules["-4"].clear()
    link_set = ip._link_set

    def comes_up(family: str, words: list[str]) -> None:
        link_set(family, words)
        ip.rules["-4"] = list(rules["-4"])

    monkeypatch.setattr(ip, "_link_set", comes_up)
    assert apply(node)
    assert (ip.rules, ip.up["ens1"]) == (rules, True)


def test_without_source_routing_nothing_but_addresses_is_set(node: FakeMachine, ip: IpRoute):
    apply(node, rails=[{**RAILS[0], "gateway": None}, RAILS[1]], source_routing=False)
    assert ip.links["ens2"] == ["fd00:1::1/64"]
    assert (ip.routes, ip.rules) == ({}, {"-4": [], "-6": []})
    assert not node.exists(fabric.OWN_FILE)
    assert "Table" not in (node.read(NETWORK_FILE.format("ens1")) or "")


def test_rails_without_addresses_only_come_up(node: FakeMachine, ip: IpRoute):
    apply(node, rails=[{"netdev": "ens1"}, {"netdev": "ens2"}])
    assert ip.up["ens1"]
    assert ip.links["ens1"] == ["fe80::1/64"]
    assert "\nAddress=" not in (node.read(NETWORK_FILE.format("ens1")) or "")


def test_missing_rdma_device_is_said_once_all_else_is_right(node: FakeMachine, ip: IpRoute):
    node.remove("/sys/class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/0")
    with pytest.raises(NotYet, match="rail 1: there is no RDMA device on ens2"):
        apply(node)
    assert ip.links["ens2"] == ["fd00:1::1/64"]


def test_change_on_the_way_can_be_taken_back(node: FakeMachine, ip: IpRoute):
    ip.links["eno1"] = []
    rails = [RAILS[0], {"netdev": "eno1", "address": "10.0.2.15/24"}]
    node.programs |= {"systemd-run": "", "sh -c ip": ""}
    before = copy.deepcopy((ip.links, ip.up, ip.rules))
    result = converge(
        node, fabric, arguments(rails=rails, guard_allowed_netdevs=["eno1"]), check=False
    )
    assert ip.links["eno1"] == ["10.0.2.15/24"]
    assert not node.exists(fabric.OWN_FILE)  # a boot would have it: only once it is confirmed
    script = node.read(f"/run/rdmaprov/revert/{result['confirm']}") or ""
    assert "sysctl -q -w net/ipv4/conf/eno1/arp_ignore=0" in script
    for line in script.splitlines()[1:]:
        if line.startswith("ip ") and " restore " not in line:
            ip.answer(line.split())
    assert "ip -4 route restore < " in script
    assert (ip.links, ip.up, ip.rules) == before
    assert not any(ip.routes.values())


def test_cut_before_the_manager_read_its_files_is_repaired(node: FakeMachine, ip: IpRoute):  # noqa: ARG001
    node.programs["networkctl reload"] = CommandFailed(["networkctl"], 1, "cut")
    with pytest.raises(CommandFailed, match="cut"):
        apply(node)
    node.programs["networkctl reload"] = lambda _: reload(node)
    assert settings(apply(node)) == [
        ("running", "ens1", "systemd-networkd"),
        ("running", "ens2", "systemd-networkd"),
    ]
    assert apply(node) == []


def neighbors(node: FakeMachine, *sizes: int) -> None:
    for number, size in enumerate(sizes, 1):
        node.put(f"/proc/sys/net/ipv4/neigh/default/gc_thresh{number}", f"{size}\n")


@pytest.mark.usefixtures("ip")
def test_neighbor_tables_grow_now_and_at_boot_and_larger_ones_stay(node: FakeMachine):
    neighbors(node, 128, 512, 65536)
    changes = apply(node, neighbor_entries=4096)
    assert [(e["setting"], e["seen"], e["wanted"]) for e in changes if "neigh" in e["setting"]] == [
        ("net.ipv4.neigh.default.gc_thresh1", "128", "4096"),
        ("net.ipv4.neigh.default.gc_thresh2", "512", "8192"),
    ]
    assert node.value("/proc/sys/net/ipv4/neigh/default/gc_thresh2") == "8192"
    lines = (node.read(fabric.OWN_FILE) or "").splitlines()
    assert [line for line in lines if "neigh/" in line] == [
        "net/ipv4/neigh/default/gc_thresh1 = 4096",
        "net/ipv4/neigh/default/gc_thresh2 = 8192",
        "net/ipv4/neigh/default/gc_thresh3 = 65536",
    ]
    assert apply(node, neighbor_entries=4096) == []


@pytest.mark.usefixtures("ip")
def test_neighbor_tables_are_set_without_source_routing(node: FakeMachine):
    neighbors(node, 128, 512, 1024)
    rails = [{"netdev": "ens1", "address": "198.18.0.1/24"}]
    apply(node, neighbor_entries=512, rails=rails, source_routing=False)
    assert "arp_ignore" not in (node.read(fabric.OWN_FILE) or "")
    assert node.value("/proc/sys/net/ipv4/neigh/default/gc_thresh3") == "2048"


@pytest.mark.usefixtures("ip")
def test_later_file_that_makes_a_neighbor_table_smaller_is_refused(node: FakeMachine):
    neighbors(node, 128, 512, 1024)
    node.put("/etc/sysctl.d/95-site.conf", "net.ipv4.neigh.default.gc_thresh3 = 1024\n")
    with pytest.raises(Refused, match=r"95-site.conf:1: .*gc_thresh3 to 1024 .*expected 16384"):
        converge(node, fabric, arguments(neighbor_entries=4096), check=True)
    node.put("/etc/sysctl.d/95-site.conf", "net.ipv4.neigh.default.gc_thresh3 = 65536\n")
    converge(node, fabric, arguments(neighbor_entries=4096), check=True)


def test_parents_of_a_vlan_come_up_before_it(machine: FakeMachine):
    """The kernel refuses a VLAN whose parent is down."""
    node, ip = with_two_rails(machine), with_ip(machine)
    for above, below in (("ens1", "eno8"), ("eno8", "eno9")):
        node.nic(below, index=int(below[-1]))
        node.put(f"/sys/class/net/{above}/uevent", "DEVTYPE=vlan\n")
        node.put(f"/sys/class/net/{above}/lower_{below}/ifindex", "9\n")
        ip.links[below], ip.up[below] = [], False
    found = [each["device"] for each in apply(node) if each["setting"] == "link"]
    assert found == ["eno9", "eno8", "ens1"]
    assert [ip.up[each] for each in found] == [True, True, True]


def test_parent_that_is_up_is_left_alone(machine: FakeMachine):
    node, ip = with_two_rails(machine), with_ip(machine)
    node.nic("eno9", index=9)
    node.put("/sys/class/net/ens1/uevent", "DEVTYPE=vlan\n")
    node.put("/sys/class/net/ens1/lower_eno9/ifindex", "9\n")
    ip.links["eno9"], ip.up["eno9"] = [], True
    assert [each["device"] for each in apply(node) if each["setting"] == "link"] == ["ens1"]


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ({"ens1": ["192.0.2.7/24"]}, r"ens1: has 192\.0\.2\.7/24, expected 198\.18\.0\.1/24 alone"),
        ({"eno1": ["198.18.0.1/24"]}, r"eno1: has 198\.18\.0\.1/24, expected on rail 0, ens1"),
    ],
)
def test_address_that_the_site_does_not_name_is_refused(node, ip, links, message):
    ip.links.update(links)
    with pytest.raises(Refused, match=message):
        apply(node)
    assert not node.exists(fabric.OWN_FILE)


def test_address_of_another_machine_is_refused(node: FakeMachine, ip: IpRoute):
    apply(node)
    ip.flags["fd00:1::1/64"] = ["dadfailed"]
    with pytest.raises(Refused, match="ens2: another host has fd00:1::1/64 too"):
        apply(node)


def test_table_with_routes_of_others_is_refused(node: FakeMachine, ip: IpRoute):
    ip.routes["-4", "1000"] = ["default via 10.0.2.2 dev eno1"]
    with pytest.raises(Refused, match="routing table 1000 has a route of another device"):
        apply(node)
    assert ip.links["ens1"] == ["fe80::1/64"]


def test_rule_that_cannot_be_added_is_a_failure(node, ip, monkeypatch):
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
