"""One plan and one validate of a node behind a real sshd: `make matrix` runs them in each pair."""

import json
import os
import sys
from pathlib import Path

import pytest
from tests.cli.namespaced import rdmaprov
from tests.unit.helpers.sites import GOOD, write
from tests.unit.helpers.ssh_node import Sshd

from rdmaprov.exit_codes import ExitCode

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a survey needs root")

# What no machine has, and a plan leaves as it is.
WANTED = 31337
VARIABLES = f"""\
---
limits_sysctl: {{net.core.somaxconn: {WANTED}}}
limits_memlock_services: []
"""
CHECK = """\
def test_connection(host, node):
    assert host.run("printenv SSH_CONNECTION").rc == 0, f"{node.name}: no ssh"
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "keys").mkdir()
    variables = Sshd(tmp_path / "keys").variables("node.example")
    variables["ansible_python_interpreter"] = sys.executable
    hosts = {"nodes": {"hosts": {"n1": {"unit": 1}}, "vars": variables}}
    files = {"hosts.yml": "---\n" + json.dumps(hosts), "group_vars/nodes.yml": VARIABLES}
    write(tmp_path / "site", {**GOOD, **files})
    (tmp_path / "test_own.py").write_text(CHECK)
    return tmp_path


def result(place):
    (path,) = place.glob("runs/*/results.json")
    return json.loads(path.read_text())


def test_plan_over_ssh(place):
    before = Path("/proc/sys/net/core/somaxconn").read_text().strip()
    code, said = rdmaprov(place, "plan", "site", "--roles", "limits")
    assert code == ExitCode.PENDING, said
    assert f"n1: kernel net.core.somaxconn {before} → {WANTED} (running)" in said
    assert result(place)["nodes"]["n1"]["state"] == "pending"


def test_validate_over_ssh(place):
    code, said = rdmaprov(place, "validate", "site", "test_own.py")
    assert code == ExitCode.OK, said
    assert result(place)["nodes"]["n1"]["state"] == "passed"
    assert result(place)["counts"] == {"passed": 1, "failed": 0, "error": 0, "skipped": 0}
