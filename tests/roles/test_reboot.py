"""The role reboot where it must not reboot; where it does is tested on the lab."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.program

REASON = "mlx5_core prof_sel is 2, expected 1"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def play(directory: Path, survey: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    """Return how a plain playbook with the role ended, for a node that is this machine."""
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {"all": {"hosts": {"here": {**variables, "__reboot_survey": survey}}}}
    (directory / "hosts.json").write_text(json.dumps(hosts))
    plays = [{"hosts": "all", "gather_facts": False, "roles": ["rdmaprov.node.reboot"]}]
    (directory / "play.json").write_text(json.dumps(plays))
    program = Path(sys.executable).with_name("ansible-playbook")
    return subprocess.run(
        [program, "-i", directory / "hosts.json", directory / "play.json", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


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
