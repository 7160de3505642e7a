"""Roles in a play: fabric runs once for each node, each task fits its module, reboot waits."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.helpers.shell import execute
from tests.unit.helpers.ssh_node import PASSED_ON

pytestmark = pytest.mark.program

NODES = ("one", "two")
SITE = {
    "all": {
        "hosts": {
            name: {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
            for name in NODES
        },
        "vars": {
            "fabric_kind": "roce",
            "fabric_link_gbps": 10,
            "fabric_rails": [{"netdev": "nosuchrail"}],
        },
    }
}
PLAY = {"hosts": "all", "gather_facts": False, "ignore_errors": True}
ROLES = ["rdmaprov.node.mtu", "rdmaprov.node.hugepages"]
INCLUDED = {
    "name": "As playbooks/apply.yml does",
    "ansible.builtin.include_role": {"name": "rdmaprov.node.{{ apply_role }}"},
    "loop": ["fabric", "mtu", "hugepages"],
    "loop_control": {"loop_var": "apply_role"},
}


def _played(directory: Path, *words: str) -> str:
    program = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [program, "--check", "-i", directory / "hosts.yml", *words, directory / "play.yml"],
        env={
            "ANSIBLE_HOME": str(directory),
            "ANSIBLE_STDOUT_CALLBACK": "minimal",
            "HOME": str(directory),
            **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize("play", [{"roles": ROLES}, {"tasks": [INCLUDED]}], ids=["plain", "apply"])
def test_fabric_runs_once_for_each_node(tmp_path: Path, play: dict[str, object]):
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(SITE))
    (tmp_path / "play.yml").write_text(yaml.safe_dump([{**PLAY, **play}]))
    said = _played(tmp_path)
    asked = [line for line in said.splitlines() if "there is no network device" in line]
    told = [line for line in said.splitlines() if "root is required" in line]
    # The role mtu's task says the same, once for each node.
    assert len(asked) + len(told) == 2 * len(NODES), said


def test_roles_modules_take_what_their_tasks_give(tmp_path: Path):
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(SITE))
    survey = {"name": "Ask all roles", "rdmaprov.node.survey": {}}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([{**PLAY, "tasks": [survey]}]))
    said = _played(tmp_path, "--limit", "one")
    assert "nccl: rail 0: there is no network device" in said or "root is required" in said, said
    assert "value of" not in said


# The role reboot where it must not reboot; where it does is tested on the lab.
REASON = "mlx5_core prof_sel is 2, expected 1"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def play(directory: Path, survey: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {"all": {"hosts": {"here": {**variables, "__reboot_survey": survey}}}}
    (directory / "hosts.json").write_text(json.dumps(hosts))
    plays = [{"hosts": "all", "gather_facts": False, "roles": ["rdmaprov.node.reboot"]}]
    (directory / "play.json").write_text(json.dumps(plays))
    program = Path(sys.executable).with_name("ansible-playbook")
    argv = [program, "-i", directory / "hosts.json", directory / "play.json", *words]
    return execute(argv, timeout=60)


def due(*reasons: str) -> dict[str, Any]:
    boot_id = BOOT_ID.read_text().strip()
    return {"roles": {"mlx5": {"reboot": reasons}, "mtu": {"reboot": []}}, "boot_id": boot_id}


def test_machine_that_ansible_runs_on_is_not_rebooted(tmp_path: Path):
    done = play(tmp_path, due(REASON), "-e", "reboot_policy=if-needed")
    assert done.returncode != 0
    assert f"machine that Ansible runs on: reboot it by hand. {REASON}" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("-e", "reboot_policy=never"),
        ("-e", "reboot_policy=if-needed apply_reboot=never"),
        ("-e", "reboot_policy=if-needed", "--check"),
    ],
)
def test_reboot_that_is_not_allowed_is_said(tmp_path: Path, words: tuple[str, ...]):
    done = play(tmp_path, due(REASON), *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert REASON in done.stdout


def test_nothing_is_said_where_nothing_is_due(tmp_path: Path):
    done = play(tmp_path, due(), "-e", "reboot_policy=if-needed")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok=1 " in done.stdout  # the check of the role's arguments
