"""What a factory node lacks, and an apply that is cut: by a kill, a boot, a full disk."""

import os
import signal

import pytest
from tests.lab.fleet import NODES, ROLES
from tests.lab.play import DISK_FULL

pytestmark = pytest.mark.lab


def start_until_role(fleet, role, *words):
    return fleet.start_until("apply", "ansible.log", f"TASK [rdmaprov.node.{role} ", *words)


def test_factory_nodes_fail_the_gate_and_nothing_is_an_error(fleet):
    found = fleet.judge()
    assert found["error"] == []
    failed = {each.partition(".py::")[0] for each in found["failure"]}
    # What torch_runtime proves is on record on the node alone.
    assert {f"test_{role}" for role in ROLES if role != "torch_runtime"} <= failed
    assert fleet.pending() == {node: list(ROLES) for node in NODES}


def test_every_cut_is_said_and_leaves_what_the_next_run_mends(lab, fleet):
    """The controller is killed, then the node restarts, then its disk is full."""
    one = ("--limit", "node1")
    killed = start_until_role(fleet, "fabric", "--roles", "fabric", *one)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()

    restarted = start_until_role(fleet, "hugepages", "--roles", "hugepages", *one)
    lab.must("reboot", "node1")
    code, said = fleet.end(restarted)
    assert code in (1, 4), said
    assert "node1" in said

    lab.must("fault", "node1", "disk-full")
    code, said = fleet.run("apply", *one)
    assert code == 1, said
    assert "node1" in said
    assert DISK_FULL.search(said)
    lab.must("heal", "node1")

    fleet.apply(*one)
    assert fleet.pending() == {"node1": [], "node2": list(ROLES)}
