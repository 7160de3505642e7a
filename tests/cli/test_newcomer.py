"""Ten mistakes of somebody new: each is a line that says what is wrong, and one that helps.

Conditions are real where a test can make them: a PATH without QEMU, a file system that is full, a
terminal on which Ctrl-C is pressed. A node without torch is in
unit/acceptance/test_acceptance_preflight.py.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest
from tests.program import ARGV, call
from tests.unit.helpers import sites
from tests.unit.helpers.ssh_node import Sshd
from tests.unit.helpers.waiting import until

from rdmaprov.exit_codes import ExitCode
from rdmaprov.resources import data_dir

ROOT = Path(__file__).parents[2]
# What an interpreter of Debian 11 says of itself.
OLD = "import sys; sys.version_info = (3, 9, 2, 'final', 0); "
NAMESPACE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
CLOSED = (
    "---\nnodes:\n  hosts:\n    n1: {unit: 1}\n    n2: {unit: 2}\n"
    "  vars: {ansible_host: 127.0.0.1, ansible_port: 1, ansible_ssh_timeout: 5}\n"
)


def told(cwd, *words, **environment):
    """Return how the program ends with an error and a hint; see `two_lines`."""
    return two_lines(call(*words, cwd=cwd, **environment))


def told_by(command, cwd, **environment):
    """Return how a command ends with an error and a hint; see `two_lines`."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    return two_lines(done)


def two_lines(done):
    """Return the exit code, and what standard error says: an error, a hint, and nothing else."""
    lines = done.stderr.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["error", "hint"], done.stderr
    return done.returncode, lines[0].removeprefix("error: "), lines[1].removeprefix("hint:  ")


def rdmaprov(*words):
    return [*ARGV, *words]


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
    done = subprocess.run(
        ["make", "-C", ROOT, "venv", f"PYTHON={old}", f"VENV={tmp_path}/venv"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.returncode != 0
    assert f"{old} is no Python 3.11 or newer; run: make venv PYTHON=python3.11" in done.stderr
    assert not (tmp_path / "venv").exists()


@pytest.fixture
def programs(tmp_path):
    """Provide a directory with what the lab runs; for a PATH. No program of it is ever run."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("qemu-system-x86_64", "qemu-img", "ssh", "ssh-keygen"):
        (directory / name).symlink_to(shutil.which("true") or "/bin/true")
    return directory


def test_missing_qemu(programs, tmp_path):
    for name in ("qemu-system-x86_64", "qemu-img"):
        (programs / name).unlink()
    words = ("lab", "--dir", tmp_path / "lab", "up")
    code, error, hint = told(tmp_path, *words, PATH=str(programs))
    assert code == ExitCode.USAGE
    assert error == "the lab needs qemu-system-x86_64, qemu-img, not installed here"
    assert hint.startswith("As root, run: apt-get install qemu-system-x86 qemu-utils")


@pytest.fixture
def full(tmp_path):
    """Provide the words that run a command beside a small file system of its own, mounted there.

    The mount is in a namespace that ends with the command.
    """
    place = tmp_path / "full"
    place.mkdir()
    mount = f'mount -t tmpfs -o size=64k none "{place}" && cd "{place}" && exec "$@"'
    if subprocess.run([*NAMESPACE, "sh", "-c", mount, "sh", "true"], check=False).returncode:
        pytest.skip("this machine lets no user mount a file system of his own")
    return place, [*NAMESPACE, "sh", "-c", mount, "sh"]


def test_no_disk_space_for_the_lab(full, programs, tmp_path):
    place, mounted = full
    words = rdmaprov("lab", "--dir", place, "--cache", tmp_path / "cache", "up", "--accel", "tcg")
    path = f"{programs}:{os.environ['PATH']}"
    code, error, hint = told_by([*mounted, *words], tmp_path, PATH=path)
    assert (code, error) == (ExitCode.FAILED, f"{place} has 0 MiB free, and 4096 are needed")
    assert "--dir DIRECTORY" in hint


def test_no_disk_space_for_a_run(full, tmp_path):
    """Room for the run's log, and for no results."""
    sites.write(tmp_path / "site", {**sites.GOOD, "hosts.yml": CLOSED})
    _, mounted = full
    fill = ["sh", "-c", 'dd if=/dev/zero of=filler bs=1k count=60 status=none && exec "$@"', "sh"]
    code, error, hint = told_by([*mounted, *fill, *rdmaprov("plan", tmp_path / "site")], tmp_path)
    assert code == ExitCode.UNKNOWN
    assert error.startswith("cannot write runs/")
    assert error.endswith(": No space left on device")
    assert hint


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
    asked = _spawned(tmp_path, "init", "dc1", env={**os.environ, "NO_COLOR": "1"})
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
        asked = _spawned(tmp_path, verb, "site", *more)
        with silent.accept()[0]:  # so ssh runs, and waits for an answer
            asked.sendintr()
            asked.expect(pexpect.EOF, timeout=60)
    asked.close()
    assert asked.exitstatus == ExitCode.INTERRUPTED, asked.before
    assert "Traceback" not in asked.before


def _spawned(directory, *words, env=None):
    """Start the program on a terminal, whatever whoever started the tests had ignored."""
    program, *arguments = rdmaprov(*words)
    return pexpect.spawn(
        program,
        arguments,
        cwd=str(directory),
        env=env,
        encoding="utf-8",
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
