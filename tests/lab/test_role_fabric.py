"""The role fabric on real kernels: who answers ARP, and what a driver's reload leaves.

That rails reach each other, stay so over a boot and are repaired is in test_pass; each change of
the kernel's links that is put right, in tests/roles/test_fabric_kernel.py.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tables import cases

from rdmaprov.resources import data_dir

pytestmark = pytest.mark.lab

SHARED = True
NODES = ("node1", "node2")

# Asks for an address on a device, and prints who answers: nobody or a MAC address.
WHO_HAS = cases(__file__, "who_has")
SETTINGS = "arp_ignore arp_announce rp_filter"


@pytest.fixture(scope="module")
def site(lab, tmp_path_factory):
    """Provide a site of the lab's nodes as `lab up` describes them."""
    return lab.copy_site(tmp_path_factory.mktemp("fabric"))


@pytest.fixture(scope="module")
def nodes(lab, site):
    program = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [
            *(program, "-i", site, data_dir("playbooks") / "apply.yml"),
            *("-e", '{"apply_roles": ["fabric"]}'),
        ],
        env={**os.environ, "ANSIBLE_PIPELINING": "1"},
        capture_output=True,
        text=True,
        timeout=lab.limit_s(300),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: lab.nodes()[name]["rails"] for name in NODES}


def facts(lab, node: str) -> list[str]:
    """Return all that runs of what the role sets on a node; devices have no order."""
    shown: str = lab.run(
        node,
        "ip -br -4 address show up; ip rule; for t in 1000 1001; do ip route show table $t; done\n"
        "cd /proc/sys/net/ipv4/conf; for each in ens*; do for s in "
        f"{SETTINGS}; do echo $each $s $(cat $each/$s); done; done",
    )
    return sorted(shown.splitlines())


@pytest.mark.parametrize("asked", [0, 1])
def test_rail_answers_for_its_own_address_alone(lab, nodes, asked):
    device = nodes["node2"][asked]["netdev"]
    answers = [
        lab.run("node2", f"python3 -c '{WHO_HAS}' {device} 198.18.{rail}.1").strip()
        for rail in (0, 1)
    ]
    own = lab.run("node1", f"cat /sys/class/net/{nodes['node1'][asked]['netdev']}/address")
    assert answers[asked] == own.strip()
    assert answers[1 - asked] == ""


def test_driver_that_is_loaded_again_gives_the_same_rail(lab, nodes):
    netdev = nodes["node1"][1]["netdev"]
    before = facts(lab, "node1")
    lab.run(
        "node1",
        f"device=$(basename $(readlink -f /sys/class/net/{netdev}/device))\n"
        "cd /sys/bus/virtio/drivers/virtio_net; echo $device > unbind; echo $device > bind\n"
        f"for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1; ip -4 address show dev {netdev} up | "
        "grep -q inet && break; done",
    )
    assert facts(lab, "node1") == before
