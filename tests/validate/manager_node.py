"""opensm on a made-up node, for tests/validate/faults.yml to break: gpu1 is the master."""

from __future__ import annotations

from tests.validate.fake_node import FakeNode

UNIT = "rdmaprov-opensm-rail0.service"
DIGEST = "0123456789abcdef"
CONFIGURATION = """\
# Written by rdmaprov (subnet_manager); changes here are lost.
guid 0x0c42a103000000a0
sm_priority {priority}
routing_engine ftree,updn
partition_config_file /etc/opensm/rdmaprov-partitions.conf
log_file /var/log/rdmaprov-opensm-rail0/opensm.log
sminfo_polling_timeout 1000
polling_retry_number 3
log_max_size 100
qos FALSE
"""
LOG = """\
Nov 25 01:00:00 000001 [7F00] 0x80 -> Entering MASTER state
Nov 25 01:00:00 000002 [7F00] 0x02 -> osm_ucast_mgr_process: ftree tables configured on all switches
Nov 25 01:00:00 000003 [7F00] 0x80 -> SUBNET UP
"""


def manager(node: FakeNode, number: int) -> None:
    """Have opensm run as the site's managers do, on the first node as the master."""
    state = "3 SMINFO_MASTER" if number == 1 else "2 SMINFO_STANDBY"
    priority = 15 - number
    node.put("/etc/opensm/rdmaprov-rail0.conf", CONFIGURATION.format(priority=priority))
    node.put("/etc/opensm/rdmaprov-partitions.conf", "Default=0x7fff, ipoib : ALL=full;\n")
    node.put(
        f"/etc/systemd/system/{UNIT}", f"[Service]\nEnvironment=RDMAPROV_CONFIGURATION={DIGEST}\n"
    )
    node.link(f"/etc/systemd/system/multi-user.target.wants/{UNIT}", f"/etc/systemd/system/{UNIT}")
    node.unit(UNIT, MainPID="730")
    node.unit("opensm.service", LoadState="masked", ActiveState="inactive", UnitFileState="masked")
    node.put("/proc/730/environ", f"PATH=/bin\0RDMAPROV_CONFIGURATION={DIGEST}\0")
    node.put("/proc/730/comm", "opensm\n")
    node.put("/sys/class/infiniband/mlx5_0/ports/1/lid", f"{number:#x}\n")
    node.answer(
        f"sminfo -C mlx5_0 -P 1 {number:#x}",
        f"sminfo: sm lid {number} sm guid 0xc42a103000000a{number}, activity count 9 priority"
        f" {priority} state {state}\n",
    )
    node.put("/var/log/rdmaprov-opensm-rail0/opensm.log", LOG if number == 1 else "")
