"""Roles in a play: fabric runs once for each node, and each task fits its module."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

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
    """Return what ansible-playbook said about play.yml."""
    program = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [program, "--check", "-i", directory / "hosts.yml", *words, directory / "play.yml"],
        env={
            "ANSIBLE_HOME": str(directory),
            "ANSIBLE_STDOUT_CALLBACK": "minimal",
            "HOME": str(directory),
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
