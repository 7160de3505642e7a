"""nccl.conf on a real node: written, stale, repaired, with nothing else changed."""

import re

import pytest

pytestmark = pytest.mark.lab

NODE = "node1"
TOUCHES = (NODE,)
CONF = "/etc/nccl.conf"
LINES = f"grep -v '^#' {CONF}"
# What the rails' RDMA devices are called is the node's own matter.
DEVICES = "ls /sys/class/infiniband | paste -sd,"
FILES = "find /etc -type f -exec sha256sum {} +"


def test_stale_file_is_repaired_and_what_overrides_it_is_said(lab, play):
    devices = lab.run(NODE, DEVICES).strip()
    right = (
        f"NCCL_IB_HCA=={devices}\nNCCL_IB_TC=106\nNCCL_IB_ADDR_FAMILY=AF_INET\nNCCL_CROSS_NIC=0\n"
    )
    assert play.changes({})
    assert lab.run(NODE, LINES) == right
    before = lab.run(NODE, FILES)
    lab.must("fault", NODE, "nccl-conf-stale")
    stale = lab.run(NODE, f"cat {CONF}")
    assert play.changes({})
    assert lab.run(NODE, LINES) == right
    new = set(lab.run(NODE, FILES).splitlines()) ^ set(before.splitlines())
    (backup,) = (line.split()[1] for line in new)
    assert re.fullmatch(r"/etc/nccl\.conf\.backup-[0-9a-f]{8}", backup)
    assert lab.run(NODE, f"cat {backup}") == stale
    lab.run(NODE, "echo NCCL_IB_TC=0 > /root/.nccl.conf")
    assert not play.changes({})
    said = " ".join(play.said.split())
    assert "/root/.nccl.conf:1: sets NCCL_IB_TC to 0, which overrides /etc/nccl.conf" in said
