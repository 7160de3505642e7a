"""Factory nodes become what the lab's site says, whatever cuts the way there, and stay so."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.lab.play import DISK_FULL

from rdmaprov.lab.model import Lab
from rdmaprov.resources import data_dir

pytestmark = pytest.mark.lab

NODES = CHANGES = ("node1", "node2")
# Those that a factory node lacks something of, in their order. The driver is the kernel's own,
# and there is no GPU: ofed and peermem have nothing to do.
ROLES = (
    "fabric",
    "mlx5",
    "hugepages",
    "mtu",
    "roce_qos",
    "limits",
    "pcie",
    "nccl",
    "torch_runtime",
)
TIMEOUT_S = 900
WAIT_S = 300


class Site:
    """The lab's own site, copied, and the verbs run on it."""

    def __init__(self, directory: Path, known: Lab) -> None:
        self.directory = directory
        self.site = Path(shutil.copytree(known.site, directory / "site"))
        variables = data_dir("inventory") / "lab" / "group_vars"
        shutil.copytree(variables, self.site / "group_vars", dirs_exist_ok=True)

    def start(self, verb: str, *words: str) -> subprocess.Popen[str]:
        """Start a verb, in a process group of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "rdmaprov", verb, self.site, *words],
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, verb: str, *words: str) -> tuple[int, str]:
        """Return a verb's exit code and what it printed."""
        process = self.start(verb, *words)
        said, _ = process.communicate(timeout=TIMEOUT_S)
        return process.returncode, said

    def newest(self) -> Path:
        """Return the directory of the run that began last."""
        return max((self.directory / "runs").iterdir(), key=lambda path: path.stat().st_mtime_ns)

    def pending(self) -> dict[str, list[str]]:
        """Return by node the roles that have something to change."""
        code, said = self.run("plan")
        assert code in (0, 5), said
        nodes = json.loads((self.newest() / "results.json").read_text())["nodes"]
        return {name: list(node["changes"]) for name, node in nodes.items()}

    def start_until(self, role: str, *words: str) -> subprocess.Popen[str]:
        """Start apply, and return once a role has begun."""
        runs = self.directory / "runs"
        before = set(runs.iterdir()) if runs.exists() else set()
        process = self.start("apply", *words)
        deadline = time.monotonic() + WAIT_S
        while process.poll() is None and time.monotonic() < deadline:
            for log in runs.glob("*/logs/ansible.log"):
                if (
                    log.parents[1] not in before
                    and f"TASK [rdmaprov.node.{role} " in log.read_text()
                ):
                    return process
            time.sleep(0.1)
        said = process.stdout.read() if process.stdout else ""
        raise AssertionError(f"{role} did not begin: {said}")


@pytest.fixture(scope="module")
def site(lab, tmp_path_factory):
    known = Lab.load(lab.layout.state)
    assert known is not None
    return Site(tmp_path_factory.mktemp("provision"), known)


def test_every_cut_is_mended_by_the_next_run(lab, site):
    """The controller is killed, then the node restarts, then its disk is full; then all is well."""
    assert site.pending() == {key: list(ROLES) for key in NODES}

    killed = site.start_until("fabric")
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()

    restarted = site.start_until("hugepages", "--limit", "node1")
    lab.must("reboot", "node1")
    said, _ = restarted.communicate(timeout=TIMEOUT_S)
    assert restarted.returncode in (1, 4), said
    assert "node1" in said

    lab.must("fault", "node2", "disk-full")
    code, said = site.run("apply", "--limit", "node2")
    assert code == 1, said
    assert "node2" in said
    assert DISK_FULL.search(said)
    lab.must("heal", "node2")

    code, said = site.run("apply")
    assert code == 0, said
    assert site.pending() == {node: [] for node in NODES}


def test_second_run_changes_nothing(site):
    code, said = site.run("apply")
    assert code == 0, said
    assert "2 nodes: 2 unchanged" in said


def test_all_is_right_after_a_boot_with_nothing_run(lab, site):
    for node in NODES:
        lab.must("reboot", node)
    assert site.pending() == {node: [] for node in NODES}
    for rail in (0, 1):
        lab.run("node1", f"ping -q -c 2 -W 5 -M do -s 4172 198.18.{rail}.2")
    # Without a card nothing loads it.
    prof_sel = "modprobe mlx5_core; cat /sys/module/mlx5_core/parameters/prof_sel"
    assert lab.run("node1", prof_sel).strip() == "1"


FAULTS = {
    "mtu-wrong": "mtu",
    "hugepages-short": "hugepages",
    "memlock-limited": "limits",
    "module-parameter-not-configured": "mlx5",
    "rail-addresses-swapped": "fabric",
    "pfc-wrong-priority": "roce_qos",
    "numa-balancing-on": "pcie",
    "nccl-conf-stale": "nccl",
}


def test_each_fault_is_one_roles_and_one_apply_repairs_them_all(lab, site):
    broken: list[str] = []
    for fault, role in FAULTS.items():
        lab.must("fault", "node1", fault)
        broken = sorted([*broken, role], key=ROLES.index)
        assert site.pending() == {"node1": broken, "node2": []}, fault
    code, said = site.run("apply")
    assert code == 0, said
    assert "2 nodes: 1 changed, 1 unchanged" in said
    assert site.pending() == {node: [] for node in NODES}
    lab.must("heal", "node1")
    assert site.pending() == {node: [] for node in NODES}
