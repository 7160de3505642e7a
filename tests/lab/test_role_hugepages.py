"""Hugepages on a real kernel: given, and reserved by the boot loader."""

import pytest

pytestmark = pytest.mark.lab

NODE = "node1"
TOUCHES = (NODE,)
POOLS = "cat /sys/devices/system/node/node*/hugepages/hugepages-2048kB/nr_hugepages"
COUNTS = {"hugepages_2m_per_numa_node": [40, 30]}


def test_kernel_argument_waits_for_a_boot_and_goes_again(lab, play):
    wanted = {**COUNTS, "hugepages_default_size": "1G", "apply_reboot": "never"}
    assert play.changes(wanted)
    assert "expected 'default_hugepagesz=1G'" in play.said
    lab.must("reboot", NODE)
    assert "default_hugepagesz=1G" in lab.run(NODE, "cat /proc/cmdline")
    assert "1048576 kB" in lab.run(NODE, "grep Hugepagesize /proc/meminfo")
    assert not play.changes(wanted)
    assert lab.run(NODE, POOLS).split() == ["40", "30"]
    assert play.changes(
        {
            "hugepages_2m_per_numa_node": [0, 0],
            "hugepages_default_size": "2M",
            "hugepages_unlisted": "free",
            "apply_reboot": "never",
        }
    )
    assert lab.run(NODE, POOLS).split() == ["0", "0"]
    assert "hugepage" not in lab.run(NODE, "cat /boot/grub/grub.cfg")
