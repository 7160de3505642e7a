"""What the link managers do with an administrator's files: left alone, refused, or beside ours."""

import pytest
from plugins.module_utils.links import Addressing, Links
from plugins.module_utils.machine import NodeError
from plugins.module_utils.plan import NotYet, Plan, Refused
from plugins.module_utils.rails import Rail
from tests.roles.fake import FakeMachine
from tests.roles.links_node import ROUTED, STATE, apply, one_rail, with_ifupdown, with_networkd
from tests.tables import cases


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    return one_rail(machine)


def test_drop_in_of_ours_goes_beside_the_admins_file(node: FakeMachine):
    node.put("/etc/systemd/network/10-rail.network", "[Match]\nMACAddress=02:00:00:00:00:01\n")
    with_networkd(node, "NETWORK_FILE=/etc/systemd/network/10-rail.network\n")
    apply(node)
    text = node.read("/etc/systemd/network/10-rail.network.d/rdmaprov-fabric.conf") or ""
    assert "[Network]\nConfigureWithoutCarrier=yes\nAddress=198.18.0.1/24\n" in text
    assert not node.exists("/etc/systemd/network/20-rdmaprov-ens1.network")


def test_admins_file_with_another_address_is_refused(node: FakeMachine):
    text = "[Match]\nName=ens1\n[Network]\nAddress=1.2.3.4/8\n"
    node.put("/etc/systemd/network/10-rail.network", text)
    with_networkd(node, "NETWORK_FILE=/etc/systemd/network/10-rail.network\n")
    with pytest.raises(Refused, match=r"gives it 1\.2\.3\.4/8, expected 198\.18\.0\.1/24"):
        apply(node)


@pytest.mark.parametrize("match", ["Name=en*", "Name=ens1 ens2", "Name=!eno1", "Type=ether"])
def test_admins_file_for_several_devices_is_refused(node: FakeMachine, match: str):
    node.put("/etc/systemd/network/10-all.network", f"[Match]\n{match}\n[Network]\nDHCP=yes\n")
    with_networkd(node, "NETWORK_FILE=/etc/systemd/network/10-all.network\n")
    with pytest.raises(Refused, match=r"10-all\.network configures more than this device"):
        apply(node)


def test_later_file_for_several_devices_gives_way(node: FakeMachine):
    node.put("/usr/lib/systemd/network/99-all.network", "[Match]\nName=en*\n")
    with_networkd(node, "NETWORK_FILE=/usr/lib/systemd/network/99-all.network\n")
    own = "/etc/systemd/network/20-rdmaprov-ens1.network"

    def reload(argv: list[str]) -> str:
        node.put(STATE, f"NETWORK_FILE={own}\n")
        return " ".join(argv)

    node.programs["networkctl reload"] = reload
    apply(node)
    assert "Name=ens1" in (node.read(own) or "")


def test_file_that_networkd_does_not_use_is_an_error(node, monkeypatch):
    monkeypatch.setattr("plugins.module_utils.links.networkd._SETTLE_S", 0)
    with_networkd(node)
    with pytest.raises(
        NodeError, match="ens1: systemd-networkd uses no file, expected /etc/systemd"
    ):
        apply(node)


def test_file_of_a_device_that_is_no_rail_any_more_goes(node: FakeMachine):
    with_ifupdown(node)
    node.put("/etc/network/interfaces.d/rdmaprov-fabric-ens9", "auto ens9\n")
    node.put("/etc/network/interfaces.d/admins", "auto eno1\n")
    apply(node)
    assert node.names("/etc/network/interfaces.d") == ["admins", "rdmaprov-fabric-ens1"]


SHOW = "nmcli -e no -g ipv4.{} connection show id rail zero"
GIVEN = {
    "addresses": "198.18.0.1/24\n",
    "routes": "198.18.0.0/24 table=1000, 0.0.0.0/0 198.18.0.254 table=1000\n",
    "routing-rules": "priority 1001 from 198.18.0.1 table 1000\n",
}


@pytest.fixture(params=["bond", "vlan"])
def stacked(machine: FakeMachine, request: pytest.FixtureRequest) -> FakeMachine:
    """Provide a stacked whose rail is a bond or a VLAN with a profile of the admin's."""
    machine.nic("rail0", index=3)
    machine.put("/sys/class/net/rail0/type", "1\n")
    machine.put("/sys/class/net/rail0/uevent", f"DEVTYPE={request.param}\nINTERFACE=rail0\n")
    machine.put("/run/NetworkManager/no-stub-resolv.conf")
    machine.programs = {
        "nmcli": "",
        "nmcli -g GENERAL.STATE device show rail0": "100 (connected)\n",
        "nmcli -g GENERAL.CONNECTION device show rail0": "rail zero\n",
    }
    for name, text in GIVEN.items():
        machine.programs[SHOW.format(name)] = text
    return machine


def plan(stacked: FakeMachine, wanted: Addressing = ROUTED) -> Plan:
    made, links = Plan(stacked), Links(stacked, "auto")
    rail = Rail(0, "rail0", "mlx5_0", "", wanted.address, wanted.gateway)
    links.of("rail0").address(made, rail, wanted)
    links.settle(made)
    return made


def test_profile_that_has_all_is_kept(stacked: FakeMachine):
    assert plan(stacked).steps == []


def test_profile_is_no_more_than_the_rail_needs(stacked: FakeMachine):
    stacked.programs[SHOW.format("routes")] = stacked.programs[SHOW.format("routing-rules")] = "\n"
    assert plan(stacked, Addressing("198.18.0.1/24")).steps == []
    assert plan(stacked, Addressing("")).steps == []


@pytest.mark.parametrize(
    ("name", "seen"), cases(__file__, "profile_that_lacks_something_is_refused_with_the_command")
)
def test_profile_that_lacks_something_is_refused_with_the_command(stacked, name, seen):
    stacked.programs[SHOW.format(name)] = seen
    with pytest.raises(Refused, match=r"NetworkManager's profile 'rail zero' makes this") as said:
        plan(stacked)
    value = GIVEN[name].strip()
    assert f"nmcli connection modify 'rail zero' ipv4.{name} '{value}';" in str(said.value)
    assert not stacked.names("/etc/NetworkManager/system-connections")


def test_bond_without_a_profile_may_get_one(stacked: FakeMachine):
    stacked.programs["nmcli -g GENERAL.CONNECTION device show rail0"] = "\n"
    with pytest.raises(NotYet, match="uses no profile for it"):
        plan(stacked)


def test_profile_on_the_management_path_is_not_replaced(stacked: FakeMachine):
    Links(stacked, "auto").of("rail0").require_kept("rail0")


def test_mtu_is_the_default_of_the_ethernet_setting(stacked: FakeMachine):
    """A bond's and a VLAN's MTU is of the ethernet setting; there is no bond.mtu."""
    made = Plan(stacked)
    Links(stacked, "auto").of("rail0").mtu(made, Rail(0, "rail0", "", "", "", ""), 9000)
    for step in made.steps:
        step.do()
    text = stacked.read("/etc/NetworkManager/conf.d/90-rdmaprov-mtu-rail0.conf") or ""
    assert "\nethernet.mtu=9000\n" in text


@pytest.mark.parametrize("seen", ["auto", "0", "9000"])
def test_mtu_is_the_default_of_a_profile_that_leaves_it_open(stacked: FakeMachine, seen: str):
    stacked.programs["nmcli -e no -g 802-3-ethernet.mtu connection show id rail zero"] = seen + "\n"
    assert [change["wanted"] for change in plan_mtu(stacked).changes()] == ["9000"]


def test_mtu_of_a_profile_that_is_kept_is_refused_with_the_command(stacked: FakeMachine):
    stacked.programs["nmcli -e no -g 802-3-ethernet.mtu connection show id rail zero"] = "1400\n"
    with pytest.raises(Refused, match=r"sets MTU 1400, expected 9000") as said:
        plan_mtu(stacked)
    wanted = "nmcli connection modify 'rail zero' 802-3-ethernet.mtu 9000; nmcli connection up"
    assert wanted in str(said.value)


def test_mtu_of_a_ports_profile_waits_for_the_role_fabrics(stacked: FakeMachine):
    """A default is for what a profile leaves open (NetworkManager.conf(5)); ours leaves it open."""
    stacked.put("/sys/class/net/rail0/uevent", "INTERFACE=rail0\n")
    stacked.programs["nmcli -e no -g 802-3-ethernet.mtu connection show id rail zero"] = "1500\n"
    with pytest.raises(NotYet, match="'rail zero' sets MTU 1500, expected 9000"):
        plan_mtu(stacked)
    stacked.programs["nmcli -g GENERAL.CONNECTION device show rail0"] = "rdmaprov-rail0\n"
    assert [change["wanted"] for change in plan_mtu(stacked).changes()] == ["9000"]


def plan_mtu(stacked: FakeMachine) -> Plan:
    made, links = Plan(stacked), Links(stacked, "auto")
    links.of("rail0").mtu(made, Rail(0, "rail0", "mlx5_0", "", "", ""), 9000)
    return made
