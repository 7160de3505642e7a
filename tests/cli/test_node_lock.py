"""A node that another run holds: apply does not change it, waits for it, or replaces a dead run."""

import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from plugins.plugin_utils.holder import Holder, of_process
from tests.cli.namespaced import hosts, needs_namespace, rdmaprov
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.exit_codes import ExitCode

pytestmark = needs_namespace

THEIRS = Holder("b" * 32, "ana", "ctl2", 4711, "2026-01-01 00:00:00 UTC", "/runs/1", "boot ns", 9)
DROP_IN = "99-rdmaprov-memlock.conf"
# What a run writes.
MOUNTS = {"run": "/run", "limits.d": "/etc/security/limits.d", "pam.d": "/etc/pam.d"}
VARIABLES = """\
---
limits_memlock_users: [nobody]
limits_memlock_services: []
limits_sysctl: {}
"""


class Node:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("run/rdmaprov", "limits.d", "pam.d"):
            (directory / "node" / name).mkdir(parents=True)
        made = hosts(directory, "{n1: {unit: 1}}", MOUNTS)
        files = {"hosts.yml": made, "group_vars/nodes.yml": VARIABLES}
        write(directory / "site", {**GOOD, **files})
        self.drop_in = directory / "node/limits.d" / DROP_IN
        self.record = directory / "node/run/rdmaprov/lock.json"

    def held_by(self, holder: Holder, left_s: float) -> None:
        until = time.clock_gettime(time.CLOCK_BOOTTIME) + left_s
        self.record.write_text(json.dumps({"holder": asdict(holder), "until": until}))

    def apply(self, *words: str) -> tuple[int, str]:
        return rdmaprov(self.directory, "apply", "site", "--roles", "limits", *words)


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def test_node_of_another_controller_s_run_is_not_changed(node):
    node.held_by(THEIRS, 600)
    before = node.record.read_text()
    code, said = node.apply()
    assert code == ExitCode.FAILED, said
    who = "ana on ctl2 (pid 4711) since 2026-01-01 00:00:00 UTC, run /runs/1"
    assert f"held by {who}; if that run was killed, the lock ends by itself in" in said
    assert not node.drop_in.exists()
    assert node.record.read_text() == before


def test_run_that_waits_takes_the_node_when_the_lease_ends(node):
    node.held_by(THEIRS, 20)
    code, said = node.apply("--wait", "900")
    assert code == ExitCode.OK, said
    assert "1 node: 1 changed" in said
    assert node.drop_in.exists()


def test_run_that_was_killed_here_is_replaced_and_the_end_releases_the_node(node):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        ended = of_process(process.pid, "/runs/2")
    node.held_by(ended, 600)
    code, said = node.apply()
    assert code == ExitCode.OK, said
    assert node.drop_in.exists()
    assert not node.record.exists()
