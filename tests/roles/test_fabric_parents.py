"""The rails' addresses on a VLAN: its parent comes up before it."""

from __future__ import annotations

from tests.roles.fabric_node import apply, with_ip, with_two_rails
from tests.roles.fake import FakeMachine


def test_parents_of_a_vlan_come_up_before_it(machine: FakeMachine):
    """The kernel refuses a VLAN whose parent is down."""
    node, ip = with_two_rails(machine), with_ip(machine)
    for above, below in (("ens1", "eno8"), ("eno8", "eno9")):
        node.nic(below, index=int(below[-1]))
        node.put(f"/sys/class/net/{above}/uevent", "DEVTYPE=vlan\n")
        node.put(f"/sys/class/net/{above}/lower_{below}/ifindex", "9\n")
        ip.links[below], ip.up[below] = [], False
    changes = apply(node)
    found = [each["device"] for each in changes if each["setting"] == "link"]
    assert found == ["eno9", "eno8", "ens1"]
    assert [ip.up[each] for each in found] == [True, True, True]


def test_parent_that_is_up_is_left_alone(machine: FakeMachine):
    node, ip = with_two_rails(machine), with_ip(machine)
    node.nic("eno9", index=9)
    node.put("/sys/class/net/ens1/uevent", "DEVTYPE=vlan\n")
    node.put("/sys/class/net/ens1/lower_eno9/ifindex", "9\n")
    ip.links["eno9"], ip.up["eno9"] = [], True
    assert [each["device"] for each in apply(node) if each["setting"] == "link"] == ["ens1"]
