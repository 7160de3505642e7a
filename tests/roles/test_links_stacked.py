"""NetworkManager's bonds and VLANs: its profile makes the device, so it is kept, and judged."""

from __future__ import annotations

import pytest
from plugins.module_utils.links import Addressing, Links
from plugins.module_utils.plan import NotYet, Plan, Refused
from plugins.module_utils.rails import Rail
from tests.roles.fake import FakeMachine

ROUTED = Addressing("198.18.0.1/24", "198.18.0.254", 1000, 1001)
SHOW = "nmcli -e no -g ipv4.{} connection show id rail zero"
GIVEN = {
    "addresses": "198.18.0.1/24\n",
    "routes": "198.18.0.0/24 table=1000, 0.0.0.0/0 198.18.0.254 table=1000\n",
    "routing-rules": "priority 1001 from 198.18.0.1 table 1000\n",
}


@pytest.fixture(params=["bond", "vlan"])
def node(machine: FakeMachine, request: pytest.FixtureRequest) -> FakeMachine:
    """Provide a node whose rail is a bond or a VLAN with a profile of the admin's."""
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


def plan(node: FakeMachine, wanted: Addressing = ROUTED) -> Plan:
    made, links = Plan(node), Links(node, "auto")
    rail = Rail(0, "rail0", "mlx5_0", "", wanted.address, wanted.gateway)
    links.of("rail0").address(made, rail, wanted)
    links.settle(made)
    return made


def test_profile_that_has_all_is_kept(node: FakeMachine):
    assert plan(node).steps == []


def test_profile_is_no_more_than_the_rail_needs(node: FakeMachine):
    node.programs[SHOW.format("routes")] = node.programs[SHOW.format("routing-rules")] = "\n"
    assert plan(node, Addressing("198.18.0.1/24")).steps == []
    assert plan(node, Addressing("")).steps == []


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("addresses", "\n"),
        ("addresses", "98.18.0.1/24, 198.18.0.1/2\n"),
        ("routes", "198.18.0.0/24 table=10001\n"),
        ("routing-rules", "priority 1001 from 198.18.0.10 table 1000\n"),
    ],
)
def test_profile_that_lacks_something_is_refused_with_the_command(
    node: FakeMachine, name: str, seen: str
):
    node.programs[SHOW.format(name)] = seen
    with pytest.raises(Refused, match=r"NetworkManager's profile 'rail zero' makes this") as said:
        plan(node)
    value = GIVEN[name].strip()
    assert f"nmcli connection modify 'rail zero' ipv4.{name} '{value}';" in str(said.value)
    assert not node.names("/etc/NetworkManager/system-connections")


def test_bond_without_a_profile_may_get_one(node: FakeMachine):
    node.programs["nmcli -g GENERAL.CONNECTION device show rail0"] = "\n"
    with pytest.raises(NotYet, match="uses no profile for it"):
        plan(node)


def test_profile_on_the_management_path_is_not_replaced(node: FakeMachine):
    Links(node, "auto").of("rail0").require_kept("rail0")


def test_mtu_is_the_default_of_the_ethernet_setting(node: FakeMachine):
    """A bond's and a VLAN's MTU is of the ethernet setting; there is no bond.mtu."""
    made = Plan(node)
    Links(node, "auto").of("rail0").mtu(made, Rail(0, "rail0", "", "", "", ""), 9000)
    for step in made.steps:
        step.do()
    text = node.read("/etc/NetworkManager/conf.d/90-rdmaprov-mtu-rail0.conf") or ""
    assert "\nethernet.mtu=9000\n" in text


@pytest.mark.parametrize("seen", ["auto", "0", "9000"])
def test_mtu_is_the_default_of_a_profile_that_leaves_it_open(node: FakeMachine, seen: str):
    node.programs["nmcli -e no -g 802-3-ethernet.mtu connection show id rail zero"] = seen + "\n"
    assert [change["wanted"] for change in plan_mtu(node).changes()] == ["9000"]


def test_mtu_of_a_profile_that_is_kept_is_refused_with_the_command(node: FakeMachine):
    node.programs["nmcli -e no -g 802-3-ethernet.mtu connection show id rail zero"] = "1400\n"
    with pytest.raises(Refused, match=r"sets MTU 1400, expected 9000") as said:
        plan_mtu(node)
    wanted = "nmcli connection modify 'rail zero' 802-3-ethernet.mtu 9000; nmcli connection up"
    assert wanted in str(said.value)


def test_mtu_of_a_ports_profile_waits_for_the_role_fabrics(node: FakeMachine):
    """A default is for what a profile leaves open (NetworkManager.conf(5)); ours leaves it open."""
    node.put("/sys/class/net/rail0/uevent", "INTERFACE=rail0\n")
    node.programs["nmcli -e no -g 802-3-ethernet.mtu connection show id rail zero"] = "1500\n"
    with pytest.raises(NotYet, match="'rail zero' sets MTU 1500, expected 9000"):
        plan_mtu(node)
    node.programs["nmcli -g GENERAL.CONNECTION device show rail0"] = "rdmaprov-rail0\n"
    assert [change["wanted"] for change in plan_mtu(node).changes()] == ["9000"]


def plan_mtu(node: FakeMachine) -> Plan:
    made, links = Plan(node), Links(node, "auto")
    links.of("rail0").mtu(made, Rail(0, "rail0", "mlx5_0", "", "", ""), 9000)
    return made
