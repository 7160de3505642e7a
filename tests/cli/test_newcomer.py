"""Mistakes of somebody new: each is a line that says what is wrong, and one that helps.

Behind them where the program runs: without a home, a locale, a place for runs; with a broken
ansible.cfg. By hand, the same was seen as user 1234 without an entry in /etc/passwd, in a directory
that is not writable (setpriv, unshare).

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
from ansible.errors import AnsibleError
from tests.program import call, finish, spawn, start
from tests.unit.helpers import sites
from tests.unit.helpers.shell import execute
from tests.unit.helpers.ssh_node import Sshd
from tests.unit.helpers.waiting import until

from rdmaprov import tuning
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.probe.reasons import ssh_reason
from rdmaprov.probe.target import Target
from rdmaprov.resources import data_dir
from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.masks import Mask
from rdmaprov.surroundings import home_for_ansible, is_of_settings, require_utf8, utf8_locale

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
    code, said = finish(asked)
    assert code == ExitCode.INTERRUPTED
    assert "error: interrupted" in said
    assert "Traceback" not in said
    assert not (tmp_path / "dc1").exists()


@pytest.mark.parametrize("verb", ["discover", "accept", "validate"])
def test_interrupt_while_a_node_is_awaited(tmp_path, verb):
    with socket.create_server(("127.0.0.1", 0)) as silent:
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
    variables = Sshd(tmp_path).variables("n1", known="other_host_key")
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


@pytest.fixture
def site(tmp_path):
    """Provide the name of a good site; others cannot write its directory, or Ansible reads none."""
    tmp_path.chmod(0o700)
    sites.write(tmp_path / "site", sites.GOOD)
    return "site"


def test_home_that_cannot_be_written(site, tmp_path):
    done = start("check", site, cwd=tmp_path, HOME="/dev/null")
    assert (done.returncode, done.stderr) == (ExitCode.OK, "site: 2 nodes, 0 problems\n")


def test_ansible_gets_a_directory_only_where_it_has_none(monkeypatch, tmp_path):
    for name in ("ANSIBLE_LOCAL_TEMP", "ANSIBLE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with home_for_ansible():
        assert "ANSIBLE_LOCAL_TEMP" not in os.environ
    assert not list(tmp_path.iterdir())
    (tmp_path / ".ansible").touch()  # in place of a directory
    with home_for_ansible():
        assert Path(os.environ["ANSIBLE_LOCAL_TEMP"]).is_dir()
    assert "ANSIBLE_LOCAL_TEMP" not in os.environ


def test_user_without_a_home_and_a_name(monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)  # a KeyError
    monkeypatch.setenv("ANSIBLE_HOME", "/tmp")  # noqa: S108 - nothing is written
    with home_for_ansible():
        assert Path.home() == Path("/")
    monkeypatch.setenv("HOME", "/")  # for monkeypatch to take back


def test_user_without_a_name_cannot_use_ssh():
    target = Target("n1", "n1", ("ssh", "n1"), "python3", 10)
    reason = ssh_reason("No user exists for uid 1234\r\n", target)
    assert reason is not None
    assert "no entry in /etc/passwd here" in reason.text


@pytest.mark.parametrize(
    ("name", "chosen"), [("C", "C.UTF-8"), ("xx_YY.UTF-8", "C.UTF-8"), ("C.UTF-8", None)]
)
def test_ansible_gets_a_locale_that_it_accepts(monkeypatch, name, chosen):
    monkeypatch.setenv("LC_ALL", name)
    assert utf8_locale().get("LC_ALL") == chosen


def test_other_encoding(monkeypatch):
    require_utf8()
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: "iso8859-1")
    with pytest.raises(UsageError, match="iso8859-1, and rdmaprov needs UTF-8"):
        require_utf8()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("broken\n", "Error reading config file"),
        ("[defaults]\nforks = some\n", "Config 'DEFAULT_FORKS'"),
    ],
)
def test_broken_ansible_cfg(site, tmp_path, text, said):
    (tmp_path / "ansible.cfg").write_text(text)
    code, error, hint = two_lines(start("check", site, cwd=tmp_path))
    assert (code, error[: len(said)]) == (ExitCode.USAGE, said)
    assert str(tmp_path / "ansible.cfg") in error
    assert "ansible.cfg" in hint


def test_wrong_setting_of_ssh_is_the_user_s_mistake(monkeypatch, tmp_path):
    monkeypatch.setenv("ANSIBLE_SSH_RETRIES", "some")
    with pytest.raises(AnsibleError, match="reconnection_retries") as raised:
        tuning.environment(1, tmp_path)
    assert is_of_settings(raised.value)


@pytest.mark.parametrize("place", ["/dev/null/runs", "/proc/self/fdinfo/runs"])
def test_directory_of_runs_that_cannot_be_written(site, tmp_path, place):
    code, error, hint = two_lines(call("plan", site, "--runs", place, cwd=tmp_path))
    assert (code, error.partition(": ")[0]) == (ExitCode.USAGE, place)
    assert hint == "Name another directory for runs: --runs DIR, or RDMAPROV_RUNS=DIR"


def test_runs_are_kept_elsewhere(monkeypatch, tmp_path):
    """By the option or the variable, and read there."""
    monkeypatch.setenv("RDMAPROV_RUNS", str(tmp_path / "kept"))
    run = RunDirectory("plan", Mask(())).path
    assert run.parent == tmp_path / "kept"
    monkeypatch.delenv("RDMAPROV_RUNS")
    done = call("report", "--runs", "kept", cwd=tmp_path)
    assert f"kept/{run.name}" in done.stdout + done.stderr
    assert "there is no run" in call("report", cwd=tmp_path).stderr
