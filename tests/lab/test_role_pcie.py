"""The path between GPU and NIC on a real kernel: set again after a driver's reload."""

from __future__ import annotations

import pytest
from tests.tables import cases

pytestmark = pytest.mark.lab

NODE = "node1"
TOUCHES = (NODE,)
BALANCING = "/proc/sys/kernel/numa_balancing"
REBIND = cases(__file__, "rebind")
# The root port above rail 0: what setpci and lspci say, before and after the role's own code.
ACS = cases(__file__, "acs")
# A virtio NIC, whose register the role would leave alone, says that it is a card.
LOCK = cases(__file__, "lock")
CARD = """
device=$(readlink -f /sys/class/net/{netdev}/device/..)
echo 0x15b3 > /run/vendor; mount --bind /run/vendor $device/vendor; basename $device
"""
# What setpci does, and what the tools of mstflint and MFT do: they map the card's registers.
REACH = cases(__file__, "reach")


def balancing(lab):
    return lab.run(NODE, f"cat {BALANCING}").strip()


def test_settings_are_set_again_after_a_reload(lab, play):
    factory = balancing(lab)
    wanted = "0" if factory == "1" else "1"
    settings = {"pcie_numa_balancing": wanted == "1"}
    assert play.changes(settings)
    assert "MaxReadReq: virtio does not use it" in play.said
    assert balancing(lab) == wanted
    assert not play.changes(settings)
    lab.run(NODE, REBIND.format(netdev=lab.netdev(NODE, 1), other=factory, right=wanted))
    assert balancing(lab) == wanted


def test_redirects_of_a_real_port_are_switched_off_alone(lab, play):
    assert play.changes({})  # the program is on the node
    said = lab.run(NODE, ACS.format(netdev=lab.netdev(NODE, 0))).splitlines()
    assert said[:2] == ["['ReqRedir', 'CmpltRedir']", "0051"]
    assert "SrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd+" in said[2]


def test_locked_kernel_keeps_its_registers_and_the_rest_is_set(lab, play):
    """As with Secure Boot: nobody writes to a card, by whichever tool; that is said."""
    lab.run(NODE, LOCK)
    lab.must("reboot", NODE)
    assert "=0:1.0;0:2.0 lockdown" in lab.run(NODE, "cat /proc/cmdline")  # as the role quotes it
    mode = lab.run(NODE, "cat /sys/kernel/security/lockdown || true")
    assert "[integrity]" in mode, f"this kernel cannot be locked: nothing is shown ({mode!r})"
    card = lab.run(NODE, CARD.format(netdev=lab.netdev(NODE, 0))).strip()
    before, after, mapped = lab.run(NODE, REACH.format(card=card)).splitlines()
    assert (after, mapped) == (before, "Operation not permitted")
    wanted = {"pcie_numa_balancing": balancing(lab) == "0"}
    assert play.changes(wanted)
    said = " ".join(play.said.split())
    assert "[WARNING]: the kernel is locked down" in said
    assert f"{card} MaxReadReq" in said
    assert (balancing(lab) != "0") == wanted["pcie_numa_balancing"]
    lab.run(NODE, "systemctl restart rdmaprov-pcie.service")
    assert lab.run(NODE, f"setpci -s {card} CAP_EXP+8.w").strip() == before
    assert not play.changes(wanted)
