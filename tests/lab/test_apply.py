"""An apply is interrupted on real nodes, and the next one goes on."""

import signal

import pytest
from tests.lab.fleet import NODES, Fleet
from tests.lab.handle import processes_with

pytestmark = pytest.mark.lab

ROLE = ("--roles", "mtu")


def test_interrupted_apply_says_what_is_half_done_and_the_next_one_converges(lab, tmp_path):
    fleet = Fleet(lab, tmp_path)
    task = "TASK [rdmaprov.node.mtu"
    process = fleet.start_until("apply", "ansible.log", task, "--serial", "1", *ROLE)
    process.send_signal(signal.SIGINT)
    code, said = fleet.end(process)
    assert code == 130
    assert "  node1: roles started: mtu\n" in said
    assert "not started\n  node2\n" in said
    states = {name: node["state"] for name, node in fleet.results()["nodes"].items()}
    assert states == {"node1": "half_done", "node2": "not_begun"}
    # A kept connection (ControlPersist) ends by itself, whichever run opened it.
    left = [line for line in processes_with(str(tmp_path)) if "[mux]" not in line]
    assert not [line for line in left if "ansible" in line or "ssh" in line]

    fleet.apply(*ROLE)
    for node in NODES:
        device = lab.netdev(node, 0)
        assert lab.run(node, f"cat /sys/class/net/{device}/mtu").strip() == "4200"
