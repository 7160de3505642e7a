"""Nodes are planned, applied, interrupted and gone on with, through the program."""

import json
import os
import signal
import subprocess
import sys
import time

import pexpect
import pytest
import yaml
from tests.lab.fleet import NODES, Fleet
from tests.lab.handle import processes_with

pytestmark = pytest.mark.lab

TIMEOUT_S = 300


@pytest.fixture
def site(lab, tmp_path):
    return Fleet(lab, tmp_path).site


def argv(verb, site, *words):
    return [sys.executable, "-m", "rdmaprov", verb, str(site), "--roles", "mtu", *words]


def rdmaprov(lab, verb, site, *words):
    return subprocess.run(
        argv(verb, site, *words),
        cwd=site.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=lab.limit_s(TIMEOUT_S),
        check=False,
    )


def results(site):
    newest = max((site.parent / "runs").iterdir(), key=lambda path: path.stat().st_mtime)
    return json.loads((newest / "results.json").read_text())


def test_plan_says_what_apply_does_and_nothing_is_left(lab, site):
    planned = rdmaprov(lab, "plan", site, "--diff")
    assert planned.returncode == 5, planned.stderr
    device = lab.netdev("node1", 0)
    assert f"  2 nodes: {device} MTU 1500 → 4200 (running, configured)\n" in planned.stdout
    assert planned.stdout.count("+MTUBytes=4200\n") == len(
        {lab.netdev(node, rail) for node in NODES for rail in (0, 1)}
    )
    wanted = {name: node["changes"] for name, node in results(site)["nodes"].items()}

    applied = rdmaprov(lab, "apply", site, "--serial", "1", "--json", "applied.json")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert "node1: mtu: 4 changes\n" in applied.stdout
    assert "2 nodes: 2 changed\n" in applied.stdout
    said = json.loads((site.parent / "applied.json").read_text())
    assert said == results(site)
    assert {name: node["changes"] for name, node in said["nodes"].items()} == wanted

    after = rdmaprov(lab, "plan", site)
    assert (after.returncode, "2 nodes: 2 unchanged\n" in after.stdout) == (0, True)


def test_interrupted_apply_says_what_is_half_done_and_the_next_one_converges(lab, site):
    process = subprocess.Popen(
        argv("apply", site, "--serial", "1"), cwd=site.parent, stdout=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + lab.limit_s(TIMEOUT_S)
    logs = site.parent / "runs"
    while not any("TASK [rdmaprov.node.mtu" in p.read_text() for p in logs.glob("*/logs/*.log")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=lab.limit_s(60))
    assert process.returncode == 130
    assert "  node1: roles started: mtu\n" in said
    assert "not started\n  node2\n" in said
    states = {name: node["state"] for name, node in results(site)["nodes"].items()}
    assert states == {"node1": "half_done", "node2": "not_begun"}
    # A kept connection (ControlPersist) ends by itself, whichever run opened it.
    left = [line for line in processes_with(str(site.parent)) if "[mux]" not in line]
    assert not [line for line in left if "ansible" in line or "ssh" in line]

    applied = rdmaprov(lab, "apply", site)
    assert applied.returncode == 0, applied.stdout
    for node in NODES:
        device = lab.netdev(node, 0)
        assert lab.run(node, f"cat /sys/class/net/{device}/mtu").strip() == "4200"


def test_apply_goes_on_without_a_node_that_cannot_be_reached(lab, site):
    hosts = yaml.safe_load((site / "hosts.yml").read_text())
    hosts["lab"]["hosts"]["node2"]["ansible_port"] = 1
    (site / "hosts.yml").write_text(yaml.safe_dump(hosts))
    asked = pexpect.spawn(
        sys.executable,
        argv("apply", site)[1:],
        cwd=str(site.parent),
        encoding="utf-8",
        timeout=lab.limit_s(TIMEOUT_S),
        env={**os.environ, "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "120"},
    )
    asked.expect("unreachable")
    asked.expect(r"Apply these changes to 1 node[^?]*\? \[y/N\]: ")
    asked.sendline("y")
    asked.expect("2 nodes: 1 changed, 1 unreachable")
    asked.expect(pexpect.EOF)
    asked.close()
    assert asked.exitstatus == 4
    assert lab.run("node1", f"cat /sys/class/net/{lab.netdev('node1', 1)}/mtu").strip() == "4200"
