"""Limits on a real node: of logins, of a daemon that runs, of the kernel.

That they survive a boot, as what other roles set, is in test_provision.
"""

import pytest

pytestmark = pytest.mark.lab

NODE = "node1"
TOUCHES = (NODE,)
SETTINGS = {"limits_sysctl": {"vm.swappiness": 7}}
# What a login may lock, and the daemon that it came by; and a kernel value.
SEEN = """ulimit -l
awk '/^Max locked/ { print $4, $5 }' /proc/$(systemctl show --property MainPID --value ssh)/limits
cat /proc/sys/vm/swappiness
"""
RIGHT = "unlimited\nunlimited unlimited\n7\n"


def test_limits_are_lifted_and_a_fault_is_repaired(lab, play):
    daemon = lab.run(NODE, "systemctl show --property MainPID ssh")
    assert lab.login(NODE, SEEN) != RIGHT
    assert play.changes(SETTINGS)
    assert lab.login(NODE, SEEN) == RIGHT
    assert lab.run(NODE, "systemctl show --property MainPID ssh") == daemon
    assert not play.changes(SETTINGS)
    lab.must("fault", NODE, "memlock-limited")
    assert lab.login(NODE, "ulimit -l") == "64\n"
    assert play.changes(SETTINGS)
    assert lab.login(NODE, SEEN) == RIGHT


def test_value_that_the_kernel_refuses_is_in_no_file(lab, play):
    assert play.run({"limits_sysctl": {"vm.swappiness": 900}}).returncode != 0
    assert "/proc/sys/vm/swappiness rejects 900: Invalid argument" in play.said
    assert lab.call(NODE, "grep -rs 900 /etc/sysctl.d").stdout == ""
