"""The way to a node is changed with a timer that takes the change back, unless it is confirmed."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.tables import cases

from rdmaprov.lab.model import Lab
from rdmaprov.resources import data_dir

pytestmark = pytest.mark.lab

NODE = "node1"
TOUCHES = (NODE,)
MANAGEMENT = "enp0s2"
MTU = 1400
REVERT_S = 25
# An RDMA device on the way to the node, and a file of its own: the image's matches by slot.
PREPARE = cases(__file__, "prepare")
SEEN = (
    f"cat /sys/class/net/{MANAGEMENT}/mtu; find /etc/systemd/network -name 'rdmaprov-mtu.conf'; "
    "systemctl list-timers --all --no-legend 'rdmaprov-revert-*'"
)


@pytest.fixture
def apply(lab):
    known = Lab.load(lab.layout.state)
    assert known is not None
    lab.run(NODE, PREPARE)

    def run(**variables: object) -> subprocess.CompletedProcess[str]:
        given = {
            "fabric_rails": [{"netdev": MANAGEMENT}],
            "fabric_kind": "roce",
            "fabric_link_gbps": 10,
            "fabric_mtu_bytes": MTU,
            "apply_roles": ["mtu"],
            "fabric_guard_revert_s": REVERT_S,
            **variables,
        }
        return subprocess.run(
            [
                Path(sys.executable).with_name("ansible-playbook"),
                *("-i", known.site, "--limit", NODE, "-e", repr(given)),
                data_dir("playbooks") / "apply.yml",
            ],
            env={**os.environ, "ANSIBLE_PIPELINING": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=lab.limit_s(300),
            check=False,
        )

    return run


def test_change_that_cuts_the_way_is_taken_back(lab, apply):
    # The connection that is open goes on; no new one gets through.
    lab.run(NODE, "true")
    warm = apply(fabric_guard_allowed_netdevs=[MANAGEMENT], fabric_mtu_bytes=1500)
    before = lab.run(NODE, SEEN)
    lab.must("fault", NODE, "sshd-hangs")
    try:
        done = apply(fabric_guard_allowed_netdevs=[MANAGEMENT])
    finally:
        time.sleep(REVERT_S)
        lab.must("heal", NODE)
    assert warm.returncode == 0, warm.stdout
    assert done.returncode == 4, done.stdout
    assert "was not confirmed, so the node reverts it by itself" in done.stdout
    assert lab.run(NODE, SEEN) == before
