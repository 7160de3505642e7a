"""A device whose data is not on port 1 is not supported: each verb says so, and ends with 4."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.cli.namespaced import needs_namespace
from tests.program import ARGV
from tests.unit.facts.test_rail_readers import planes
from tests.unit.helpers.shell import execute
from tests.unit.helpers.sites import GOOD, write
from tests.validate.fake_node import FakeNode

pytestmark = needs_namespace

SAYS = "mlx5_0 has 12 ports (/sys/class/infiniband/mlx5_0/ports), with data on others than port 1"
CHECKS = "rail_is_up or port_is_active or test_mtu or test_roce_qos.py"
VERBS = {
    "discover": (),
    "plan": ("--roles", "fabric,mtu,roce_qos,pcie,nccl"),
    "validate": ("-k", CHECKS),
    "watch": ("--for", "4"),
    "accept": ("--backend", "gloo", "--ignore-validate"),
}


@pytest.fixture
def place(tmp_path):
    """Provide two nodes that are this machine, with a ConnectX-8 of four planes in sysfs."""
    planes(FakeNode(tmp_path / "node"))
    torch = tmp_path / "torch"
    torch.write_text('#!/bin/sh\necho \'{"python": "3.11.2", "torch": "2.13.0"}\'\n')
    torch.chmod(0o700)
    hosts = "---\nnodes:\n  hosts: {gpu1: {}, gpu2: {}}\n"
    hosts += "  vars: {ansible_connection: local, ansible_python_interpreter: {}}\n".replace(
        "{}}", f"{sys.executable}}}"
    )
    fabric = "---\nfabric_kind: roce\nfabric_link_gbps: 400\nfabric_leaf: leaf01\n"
    fabric += f"fabric_rails:\n  - {{netdev: eth_r0_p0}}\ntorch_runtime_python: {torch}\n"
    fabric += "torch_runtime_kind: interpreter\n"
    write(tmp_path / "site", {**GOOD, "hosts.yml": hosts, "group_vars/all.yml": fabric})
    return tmp_path


@pytest.mark.parametrize("verb", VERBS)
def test_verb_ends_with_unknown_on_a_multi_plane_device(place, verb):
    line = [*ARGV, verb, "site", *VERBS[verb]]
    done = execute(
        ["unshare", "--mount", "sh", "-c", 'mount --bind node/sys /sys && exec "$@"', "-", *line],
        cwd=place,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 4, said
    assert SAYS in said
    assert "gpu1" in said or "2 nodes: unknown: " in said
    assert "DOWN" not in said
    assert "no answer" not in said
