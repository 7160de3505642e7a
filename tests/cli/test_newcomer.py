"""Mistakes of somebody new: each is a line that says what is wrong, and one that helps.

A PATH without QEMU is in test_lab.py, a file system that is full in test_full_disk.py, a node
without torch in unit/acceptance/test_acceptance_preflight.py.
"""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest
from tests.program import call, spawn
from tests.unit.helpers import sites
from tests.unit.helpers.shell import execute
from tests.unit.helpers.ssh_node import Sshd
from tests.unit.helpers.waiting import until

from rdmaprov.exit_codes import ExitCode
from rdmaprov.resources import data_dir

ROOT = Path(__file__).parents[2]
# What an interpreter of Debian 11 says of itself.
OLD = "import sys; sys.version_info = (3, 9, 2, 'final', 0); "
CLOSED = (
    "---\nnodes:\n  hosts:\n    n1: {unit: 1}\n    n2: {unit: 2}\n"
    "  vars: {ansible_host: 127.0.0.1, ansible_port: 1, ansible_ssh_timeout: 5}\n"
)


def told(cwd, *words, **environment):
    """Return how the program ends with an error and a hint; see `two_lines`."""
    return two_lines(call(*words, cwd=cwd, **environment))


def told_by(command, cwd, **environment):
    """Return how a command ends with an error and a hint; see `two_lines`."""
    done = execute(
        [str(word) for word in command],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
    return two_lines(done)


def two_lines(done):
    """Return the exit code, and what standard error says: an error, a hint, and nothing else."""
    lines = done.stderr.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["error", "hint"], done.stderr
    return done.returncode, lines[0].removeprefix("error: "), lines[1].removeprefix("hint:  ")


def test_wrong_directory(tmp_path):
    code, error, hint = told(tmp_path, "plan", "inventory/lab")
    assert code == ExitCode.INVALID_SITE
    assert error == "inventory/lab: no such directory"
    assert f"relative to {tmp_path}" in hint


def test_wrong_site_path(tmp_path):
    sites.write(tmp_path / "inventory/prod", sites.GOOD)
    code, error, hint = told(tmp_path, "check", "inventory/pord")
    assert (code, error) == (ExitCode.INVALID_SITE, "inventory/pord: no such directory")
    assert hint == "Did you mean inventory/prod?"
    _, error, hint = told(tmp_path, "check", "inventory/prod/hosts.yml")
    assert error == "inventory/prod/hosts.yml: not a directory"
    assert hint == "Name the directory of the site: inventory/prod"


def test_no_lab_is_up(tmp_path):
    """The lab's site as it is shipped: its nodes are written by `lab up`."""
    shutil.copytree(
        data_dir("inventory") / "lab", tmp_path / "lab", ignore=shutil.ignore_patterns("hosts.yml")
    )
    done = call("apply", "lab", cwd=tmp_path)
    assert done.returncode == ExitCode.INVALID_SITE
    assert "the site has no hosts; run `rdmaprov lab up`, which writes them" in done.stdout
    assert len(done.stdout.splitlines()) == 1
    words = ("lab", "--dir", tmp_path / "none", "ssh", "node1")
    assert told(tmp_path, *words) == (ExitCode.FAILED, "there is no lab", "Run: rdmaprov lab up")


def test_old_python_runs_the_package(tmp_path):
    words = [sys.executable, "-c", f"{OLD}sys.path.insert(0, '{ROOT}/src'); import rdmaprov"]
    code, error, hint = told_by(words, tmp_path)
    assert code == ExitCode.USAGE
    assert error.startswith("rdmaprov needs Python 3.11 or newer, and this is 3.9 (")
    assert hint == "In a checkout, run: make venv PYTHON=python3.11"


def test_old_python_makes_the_environment(tmp_path):
    old = tmp_path / "python3"
    old.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{OLD}$2"\n')
    old.chmod(0o755)
    done = execute(
        ["make", "-C", ROOT, "venv", f"PYTHON={old}", f"VENV={tmp_path}/venv"],
        env={"PATH": os.environ["PATH"]},
    )
    assert done.returncode != 0
    assert f"{old} is no Python 3.11 or newer; run: make venv PYTHON=python3.11" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_misspelt_verb(tmp_path):
    code, error, hint = told(tmp_path, "aply", "inventory/lab")
    assert (code, error) == (ExitCode.USAGE, "No such command 'aply'. Did you mean 'apply'?")
    assert hint == "Run: rdmaprov --help"


def test_missing_key(tmp_path):
    """The site names a private key that is not there; sshd, which is real, then refuses."""
    given = Sshd(tmp_path).variables("gpu1.example")
    given["ansible_private_key_file"] = given.pop("ansible_ssh_private_key_file") + ".gone"
    lines = [f"    {name}: {value!r}\n" for name, value in given.items()]
    hosts = f"---\nnodes:\n  hosts: {{n1: {{unit: 1}}}}\n  vars:\n{''.join(lines)}"
    sites.write(tmp_path / "site", {**sites.GOOD, "hosts.yml": hosts})
    done = call("validate", "site", "test_mtu.py", "-x", cwd=tmp_path, COLUMNS="300")
    assert done.returncode == ExitCode.UNKNOWN
    assert (
        "n1: the private key file does not exist. Check ansible_ssh_private_key_file" in done.stdout
    )
    assert "Traceback" not in done.stdout + done.stderr


def test_interrupt_at_a_question(tmp_path):
    asked = spawn("init", "dc1", cwd=tmp_path, NO_COLOR="1")
    asked.expect("Fabric.*: ")  # up to where it waits for the answer
    # A signal just before Python reads its input, file 0, is seen behind the answer only.
    at = Path(f"/proc/{asked.pid}/syscall")
    assert until(lambda: at.read_text().split()[1:2] == ["0x0"])
    asked.sendintr()
    asked.expect(pexpect.EOF)
    asked.close()
    assert asked.exitstatus == ExitCode.INTERRUPTED
    assert "error: interrupted" in asked.before
    assert "Traceback" not in asked.before
    assert not (tmp_path / "dc1").exists()


@pytest.mark.parametrize("verb", ["discover", "accept", "validate"])
def test_interrupt_while_a_node_is_awaited(tmp_path, verb):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = str(silent.getsockname()[1])
        hosts = CLOSED.replace("port: 1", f"port: {port}").replace("timeout: 5", "timeout: 100")
        sites.write(tmp_path / "site", {**sites.GOOD, "hosts.yml": hosts})
        silent.settimeout(60)
        more = ["--ignore-validate"] if verb == "accept" else []
        asked = spawn(verb, "site", *more, cwd=tmp_path)
        with silent.accept()[0]:  # so ssh runs, and waits for an answer
            asked.sendintr()
            asked.expect(pexpect.EOF, timeout=60)
    asked.close()
    assert asked.exitstatus == ExitCode.INTERRUPTED, asked.before
    assert "Traceback" not in asked.before


def test_printed_commands_can_be_pasted_where_a_path_has_a_space(tmp_path):
    sites.write(tmp_path / "my site", {**sites.GOOD, "hosts.yml": CLOSED})
    done = call("accept", "my site", cwd=tmp_path)
    said = done.stdout + done.stderr
    printed = [line.partition("rdmaprov ")[2] for line in said.splitlines() if "rdmaprov " in line]
    assert done.returncode == ExitCode.UNKNOWN
    assert any("'my site'" in line for line in printed), said
    assert not [line for line in printed if "my site" in line.replace("'my site'", "")], said


def test_plain_ssh_with_another_host_key_is_one_line(tmp_path):
    """Testinfra's own connection; Ansible's and ours have their own tests."""
    node = Sshd(tmp_path)
    variables = node.variables("n1", known="other_host_key")
    options = variables["ansible_ssh_common_args"].partition("-oProxyCommand=")[2].rstrip("'")
    (tmp_path / "ssh_config").write_text(
        f"Host n1\nUserKnownHostsFile {tmp_path}/known_n1\nProxyCommand {options}\n"
    )
    hosts = "---\nnodes:\n  hosts:\n    n1: {unit: 1, ansible_host: n1}\n"
    sites.write(tmp_path / "site", {**sites.GOOD, "hosts.yml": hosts})
    words = ("--hosts=ssh://n1", f"--ssh-config={tmp_path}/ssh_config", "--inventory=site", "-q")
    done = call("validate", "site", "test_mtu.py", *words, cwd=tmp_path)
    said = done.stdout + done.stderr
    assert done.returncode == ExitCode.UNKNOWN, said
    assert "CommandResult(" not in said
    assert len([line for line in said.splitlines() if "host key" in line.lower()]) == 1, said
