"""A node whose RDMA devices are in use: apply refuses it before the first change, unless forced."""

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.namespaced import hosts, needs_namespace, rdmaprov
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.exit_codes import ExitCode
from rdmaprov.node.bundle import SIGNED_STATE, STATE

pytestmark = needs_namespace

MODINFO = Path(__file__).parents[1] / "fixtures" / "modinfo" / "mlx5_core.txt"
# On the node, the driver has a parameter that only a reboot changes.
MOUNTS = {"run": "/run", "module": "/sys/module", "etc": "/etc", "bin": "/usr/local/sbin"}
HOSTS = "{n1: {unit: 1}, n2: {unit: 2, mlx5_module_parameters: {}}}"
ONE = "{n1: {unit: 1}}"
VARIABLES = """\
---
mlx5_module_parameters: {mlx5_core: {prof_sel: 1}}
mlx5_initramfs: never
mlx5_reload: never
"""
WRITTEN = "# Written by rdmaprov (mlx5); changes here are lost.\noptions mlx5_core prof_sel=1\n"
HOLD = "import sys; handle = open(sys.argv[1]); print('open', flush=True); sys.stdin.read()"


class Node:
    """A node on this machine, and a site with it; the other node needs no change."""

    def __init__(self, directory: Path, nodes: str = HOSTS) -> None:
        self.directory = directory
        node = directory / "node"
        for name in ("run", "module/mlx5_core/parameters", "etc/modprobe.d", "bin"):
            (node / name).mkdir(parents=True)
        for name in ("passwd", "group", "ld.so.cache"):
            if Path("/etc", name).exists():
                shutil.copy(Path("/etc", name), node / "etc")
        (node / "module/mlx5_core/initstate").write_text("live\n")
        self.has("2")
        self.program("modinfo", f"#!/bin/sh\ncat {MODINFO}\n")
        files = {"hosts.yml": hosts(directory, nodes, MOUNTS), "group_vars/nodes.yml": VARIABLES}
        write(directory / "site", {**GOOD, **files})
        self.written = node / "etc/modprobe.d/rdmaprov.conf"

    def has(self, profile: str) -> None:
        """Have the driver run with another parameter, which is only read."""
        parameter = self.directory / "node/module/mlx5_core/parameters/prof_sel"
        parameter.unlink(missing_ok=True)
        parameter.write_text(f"{profile}\n")
        parameter.chmod(0o444)

    def program(self, name: str, text: str) -> None:
        path = self.directory / "node/bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def rdmaprov(self, verb: str, *words: str) -> tuple[int, str]:
        return rdmaprov(self.directory, verb, "site", "--roles", "mlx5", *words)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, ONE)


@pytest.fixture
def job(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Provide a process that has a device open; no other worker's test has one meanwhile."""
    device = tmp_path / "dev/infiniband/uverbs0"
    device.parent.mkdir(parents=True)
    device.touch()
    hold = [sys.executable, "-c", HOLD, str(device)]
    with tmp_path_factory.getbasetemp().with_name("busy.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with subprocess.Popen(hold, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"open\n"
            yield process.pid


def test_busy_node_is_refused_by_name_before_its_first_change(tmp_path: Path, job: int):
    node = Node(tmp_path)
    code, said = node.rdmaprov("apply", "--reboot", "if-needed")
    assert code == ExitCode.FAILED, said
    assert f"n1: Survey the node: failed: busy: pid {job} of root, " in said
    assert ": /dev/infiniband/uverbs0" in said
    assert ". It would be interrupted: reboot: the node is away, for several minutes. " in said
    assert "2 nodes: 1 unchanged, 1 failed (n1)" in said
    assert not node.written.exists()


def test_plan_names_what_is_interrupted_and_who_uses_the_node(node: Node, job: int):
    variables = {"group_vars/nodes.yml": f"{VARIABLES}reboot_policy: if-needed\n"}
    write(node.directory / "site", variables)
    code, said = node.rdmaprov("plan")
    assert code == ExitCode.PENDING, said
    assert (
        "apply interrupts traffic\n  n1: reboot: the node is away, for several minutes\n"
        f"busy: apply refuses these nodes without --force-busy\n  n1: pid {job} of root, "
    ) in said
    assert not node.written.exists()
    name = Path(f"/proc/{job}/exe").readlink().name
    own = f"{VARIABLES}reboot_policy: if-needed\nscheduler_standing_processes: [{name}]\n"
    write(node.directory / "site", {"group_vars/nodes.yml": own})
    _, said = node.rdmaprov("plan")
    assert f"n1: standing: {name}" in said
    assert f"pid {job}" not in said


def test_busy_node_that_needs_nothing_disruptive_is_changed(node: Node, job: int):
    assert job
    proof, signed = (node.directory / "node/state" / Path(of).name for of in (STATE, SIGNED_STATE))
    proof.write_text('{"verdict": "proven"}')
    signed.touch()
    code, said = node.rdmaprov("apply", "--reboot", "never")
    assert code == ExitCode.PENDING, said
    assert "Apply these changes" not in said  # nobody is there to be asked
    assert node.written.exists()
    assert '"verdict": "unknown"' in proof.read_text()
    assert not signed.exists()


def test_busy_node_is_changed_by_force(node: Node, job: int):
    assert job
    code, said = node.rdmaprov("apply", "--reboot", "if-needed", "--force-busy")
    assert node.written.exists(), said
    # As far as the reboot, which no test takes this machine to.
    assert "this node is the machine that Ansible runs on: reboot it by hand" in said
    assert "busy" not in said
    assert code == ExitCode.FAILED
