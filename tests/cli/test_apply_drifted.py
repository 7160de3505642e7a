"""`apply --drifted` as a program; this machine is the nodes, and is only read."""

import json
import os
import sys
from pathlib import Path

import pytest
from tests.program import call, finish, spawn
from tests.tables import cases
from tests.unit.helpers.sites import GOOD, write

SETTING = "kernel.randomize_va_space"
NOTHING = "limits_memlock_users: []\nlimits_memlock_services: []\n"
HOSTS = cases(__file__, "hosts")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a survey needs root")


@pytest.fixture
def site(tmp_path):
    """Provide a site of this machine (n1), a closed port (n2), and one to be changed (n3)."""
    if Path("/etc/sysctl.d/99-z-rdmaprov-limits.conf").exists():
        pytest.skip("this machine is a node")
    change = f"---\nlimits_sysctl: {{{SETTING}: 17}}\n"
    python = f"ansible_python_interpreter: {sys.executable}\n"
    files = {"hosts.yml": HOSTS, "group_vars/nodes.yml": f"---\n{NOTHING}{python}"}
    return write(tmp_path / "site", {**GOOD, **files, "host_vars/n3.yml": change})


DRIFTED = ("apply", "site", "--drifted", "--roles", "limits")


def drifted(site, *words):
    return call(*DRIFTED, *words, cwd=site.parent)


def results(site):
    (run,) = (site.parent / "runs").glob("*")
    return json.loads((run / "results.json").read_text()), (run / "logs/ansible.log").read_text()


def test_fleet_that_is_as_described_costs_no_ansible(site):
    done = drifted(site, "--limit", "n1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 node: 1 unchanged (probed)" in done.stdout
    found, log = results(site)
    node = found["nodes"]["n1"]
    assert (node["state"], node["probed"], node["not_proven"]) == ("unchanged", True, "")
    assert log == "n1: unchanged, verified by the probe\n"


def test_node_that_does_not_answer_is_left_to_ansible_alone(site):
    done = drifted(site, "--limit", "n1:n2")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "2 nodes: 1 unchanged (probed), 1 unreachable (n2)" in done.stdout
    found, log = results(site)
    assert [found["nodes"][name]["state"] for name in ("n1", "n2")] == ["unchanged", "unreachable"]
    assert "connection refused" in found["nodes"]["n2"]["not_proven"]
    assert found["nodes"]["n1"]["seconds"] == 0
    play = log.partition("PLAY [")[2]
    assert "n2" in play
    assert "n1" not in play


def test_interrupt_while_nodes_are_probed_ends_the_run(site, tmp_path):
    hanging = tmp_path / "python"
    hanging.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexec sleep 60\n")
    hanging.chmod(0o755)
    (site / "host_vars/n3.yml").write_text(f"---\nansible_python_interpreter: {hanging}\n")
    run = spawn(*DRIFTED, "--limit", "n1:n3", cwd=site.parent)
    run.expect("probing 2 nodes")
    while not (tmp_path / "started").exists():
        assert run.isalive()
    run.sendintr()
    run.expect("2 nodes: 2 not started")
    assert finish(run)[0] == 130
    assert results(site)[0]["interrupted"] is True


def test_plan_is_asked_about_the_drifted_node_only(site):
    asked = spawn(*DRIFTED, "--limit", "n1:n3", cwd=site.parent)
    asked.expect("Apply these changes")
    shown = asked.before
    asked.sendline("n")
    code, _ = finish(asked)
    assert "pending: limits" in shown
    assert f"{SETTING}" in shown
    assert "2 nodes: 1 unchanged (probed), 1 pending" in shown
    assert code == 5
    found, log = results(site)
    assert (found["nodes"]["n1"]["probed"], found["nodes"]["n3"]["probed"]) == (True, False)
    assert "n1" not in log.partition("PLAY [")[2]
    assert Path("/proc/sys/kernel/randomize_va_space").read_text() != "17\n"
