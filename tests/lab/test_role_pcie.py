"""The path between GPU and NIC on a real kernel: set again after a driver's reload."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.lab

NODE = "node1"
TOUCHES = (NODE,)
BALANCING = "/proc/sys/kernel/numa_balancing"
REBIND = """
echo {other} > /proc/sys/kernel/numa_balancing
device=$(basename $(readlink -f /sys/class/net/{netdev}/device))
echo $device > /sys/bus/virtio/drivers/virtio_net/unbind; sleep 1
echo $device > /sys/bus/virtio/drivers/virtio_net/bind
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    [ $(cat /proc/sys/kernel/numa_balancing) = {right} ] && break; sleep 1
done
"""
# The root port above rail 0: what setpci and lspci say, before and after the role's own code.
ACS = """
port=$(basename $(readlink -f /sys/class/net/{netdev}/device/../..))
setpci -s $port ECAP_ACS+6.w=5d
PYTHONPATH=/usr/local/lib/rdmaprov/pcie python3 -c "
from node.machine import Machine
from node.pci import Function
port = Function(Machine(), '$port')
print(port.redirects())
port.redirect_off()
"
setpci -s $port ECAP_ACS+6.w
lspci -vvv -s $port | grep ACSCtl
setpci -s $port ECAP_ACS+6.w=0
"""


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
