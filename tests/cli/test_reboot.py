"""Reboots of nodes behind real sshds: no fork waits, and each node that is not back has its reason.

Nodes are this machine with directories of a test, entered by sshd's ForceCommand. No machine ends:
`shutdown` is a stand-in, after which the node speaks no ssh until it has "booted".
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.namespaced import STATE, needs_namespace
from tests.cli.test_busy import MOUNTS, VARIABLES, WRITTEN, Node
from tests.program import ARGV
from tests.tables import cases
from tests.unit.helpers.shell import execute
from tests.unit.helpers.sites import GOOD, write
from tests.unit.helpers.ssh_node import SSHD, Sshd
from tests.unit.helpers.waiting import until

from rdmaprov.exit_codes import ExitCode

pytestmark = [needs_namespace, pytest.mark.program, pytest.mark.waits]

BINDS = {**MOUNTS, "state": STATE, "boot_id": "/proc/sys/kernel/random/boot_id"}
ENTER = cases(__file__, "enter")
PROXY = cases(__file__, "proxy")
SHUTDOWN = cases(__file__, "shutdown")
# Each boots once a file is there.
ENDS = cases(__file__, "ends")
LIMITS_S = {"dead": 60, "stuck": 60, "same": 100}
GIVEN = '{"apply_force_busy": true, "apply_roles": ["mlx5"]}'
WAIT_S = 900


class Fleet:
    def __init__(self, at: Path, *ends: str) -> None:
        self.at = at
        (at / "keys").mkdir()
        sshd = Sshd(at / "keys")
        nodes = {f"n{number}": kind for number, kind in enumerate(ends, 1)}
        hosts = {name: self._node(sshd, name, kind) for name, kind in nodes.items()}
        shared = {
            "ansible_python_interpreter": sys.executable,
            "ansible_ssh_args": "-o ControlMaster=auto -o ControlPersist=20s",
            "ansible_control_path_dir": str(at / "cp"),
            "ansible_ssh_timeout": 60,
            "ansible_pipelining": True,
        }
        variables = f"{VARIABLES}reboot_policy: if-needed\n"
        files = {"hosts.yml": json.dumps({"nodes": {"hosts": hosts, "vars": shared}})}
        write(at / "site", {**GOOD, **files, "group_vars/nodes.yml": variables})

    def _node(self, sshd: Sshd, name: str, kind: str) -> dict[str, object]:
        at, number = self.at / name, int(name[1:])
        Node(at)
        (at / "running").write_text("running\n")
        (at / "node/boot_id").write_text(f"00000000-0000-4000-8000-{number:012}\n")
        binds = [f"mount --bind {own} {hidden}" for own, hidden in BINDS.items()]
        if (real := Path("/usr/sbin/shutdown")).exists():
            binds.append(f"mount --bind bin/shutdown {real}")  # whatever looks for it there
        programs = {
            "enter": ENTER.format(at=at, binds=" && ".join([f"mkdir -p {STATE}", *binds])),
            "proxy": PROXY.format(at=at, sshd=SSHD),
            "node/bin/shutdown": SHUTDOWN.format(at=at, ends=ENDS[kind]),
            "node/bin/systemctl": f"#!/bin/sh\ntest $1 = is-system-running && cat {at}/running\n",
        }
        for each, text in programs.items():
            (at / each).write_text(text)
            (at / each).chmod(0o755)
        found = sshd.variables(f"{name}.example", f"ForceCommand {at}/enter")
        words = str(found["ansible_ssh_common_args"]).replace(f"={SSHD} ", f"={at}/proxy ")
        limit_s = LIMITS_S.get(kind, WAIT_S)
        own = {"unit": number, "reboot_timeout_s": limit_s, "ansible_ssh_common_args": words}
        return {**found, **own}

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        command = [*ARGV, "apply", "site", "--roles", "mlx5", "--force-busy", *words]
        own = {**os.environ, "COLUMNS": "300", **environment}
        with (self.at / "said").open("w") as said:
            return subprocess.Popen(
                command, cwd=self.at, env=own, stdout=said, stderr=said, text=True
            )

    @property
    def said(self) -> str:
        return (self.at / "said").read_text()

    def rebooted(self) -> list[str]:
        """Return the nodes that are up again, in the order in which they were."""
        return re.findall(r"^(n\d): reboot: changed$", self.said, re.M)

    def asked(self, name: str) -> list[str]:
        path = self.at / name / "asked"
        return path.read_text().splitlines() if path.exists() else []

    def results(self) -> dict[str, dict[str, object]]:
        (path,) = self.at.glob("runs/*/results.json")
        nodes: dict[str, dict[str, object]] = json.loads(path.read_text())["nodes"]
        return nodes


def test_nodes_that_are_up_go_on_while_one_boots_though_there_is_one_fork(tmp_path):
    fleet = Fleet(tmp_path, "held", "boots", "boots", "boots")
    with fleet.start("--serial", "3", ANSIBLE_FORKS="1") as process:
        until(lambda: len(fleet.rebooted()) == 2 or process.poll() is not None, WAIT_S)
        (tmp_path / "n1/go").touch()
        assert process.wait(2 * WAIT_S) == ExitCode.OK, fleet.said
    assert (sorted(fleet.rebooted()[:2]), fleet.rebooted()[2:]) == (["n2", "n3"], ["n1", "n4"])
    for name, found in fleet.results().items():
        assert (found["state"], found["roles_run"]) == ("changed", ["mlx5", "reboot"])
        assert found["boot_id"] == (tmp_path / name / "node/boot_id").read_text().strip()
        assert (tmp_path / name / "running").read_text() == "degraded\n"
        assert fleet.asked(name) == ["-r now rdmaprov reboots this node"]


def test_each_node_that_did_not_reboot_has_its_reason(tmp_path):
    fleet = Fleet(tmp_path, "dead", "stuck", "same", "refuses", "boots")
    with fleet.start() as process:
        assert process.wait(2 * WAIT_S) == ExitCode.FAILED, fleet.said
    found, when = fleet.results(), "s after it was told to reboot: "
    reasons = {
        "n1": f"the node did not return within 60 {when}Protocol major versions differ",
        "n2": f"the node did not go down within 60 {when}its boot_id is the same",
        "n3": f"the node was away, and did not reboot within 100 {when}its boot_id is the same",
        "n4": "shutdown -r failed: Call to Reboot failed: Access denied",
    }
    for name, why in reasons.items():
        assert str(found[name]["problems"]).startswith(f"['{why}"), fleet.said
    assert found["n1"]["failed_task"] == "reboot: Reboot and wait until the node is up"
    assert [len(fleet.asked(name)) for name in found] == [1] * 5
    assert fleet.rebooted() == ["n5"]


def test_role_in_a_plain_playbook_waits_in_its_task(tmp_path):
    fleet = Fleet(tmp_path, "boots")
    (tmp_path / "n1/node/etc/modprobe.d/rdmaprov.conf").write_text(WRITTEN)
    plays = [{"hosts": "all", "gather_facts": False, "roles": ["rdmaprov.node.reboot"]}]
    (tmp_path / "play.json").write_text(json.dumps(plays))
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    command = [program, "-i", "site", "play.json", "-e", GIVEN]
    for check in (["--check"], []):
        done = execute([*command, *check], cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert len(fleet.asked("n1")) == (0 if check else 1)
    assert "ok: [n1]" in done.stdout.partition("Verify all settings after the reboot")[2]
