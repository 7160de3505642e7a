"""Every verb that connects to nodes asks for sudo's password, and gives it to sudo alone."""

import hashlib
import os
import signal
import sys
from pathlib import Path

import click
import pexpect
import pytest
from tests.program import finish, spawn
from tests.tables import cases
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.cli import VERBS, cli

BECOME = "hunter22"
SUM = hashlib.sha256(BECOME.encode()).hexdigest()
# As sudo asks: the prompt that it is given on standard error, then one line of standard input.
SUDO = cases(__file__, "sudo")
OWN_TEST = "def test_node(host):\n    assert host.run('true').rc == 0\n"


@pytest.fixture
def place(tmp_path):
    """Provide a directory with a site whose two nodes are this machine, behind a sudo that asks."""
    sudo, answered = tmp_path / "sudo", tmp_path / "answered"
    sudo.write_text(SUDO.replace("{sum}", SUM).replace("{answered}", str(answered)))
    sudo.chmod(0o700)
    hosts = (
        "---\nnodes:\n  hosts:\n    n1: {unit: 1}\n    n2: {unit: 2}\n  vars:\n"
        "    ansible_connection: local\n    ansible_become: true\n"
        f"    ansible_python_interpreter: {sys.executable}\n    ansible_become_exe: {sudo}\n"
    )
    write(tmp_path / "site", {**GOOD, "hosts.yml": hosts})
    infiniband = GOOD["group_vars/all.yml"].replace("roce", "infiniband")
    write(tmp_path / "ib", {"hosts.yml": hosts, "group_vars/all.yml": infiniband})
    (tmp_path / "test_mine.py").write_text(OWN_TEST)
    return tmp_path


def ask(place: Path, password: str, *words: str) -> tuple[int, str]:
    """Run a verb that asks for sudo's password; return its exit code and what it printed."""
    # This may be root.
    environment = {"ANSIBLE_BECOME_ALLOW_SAME_USER": "1", "PYTHONFAULTHANDLER": "1"}
    asked = spawn(*words, "--ask-become-pass", cwd=place, **environment)
    asked.expect("BECOME password: ")
    asked.sendline(password)
    try:
        return finish(asked)
    except pexpect.TIMEOUT:  # every Python below it says where it waits
        os.killpg(asked.pid, signal.SIGABRT)
        raise AssertionError(asked.before + asked.read()) from None


# One of what asks through Ansible, one of what asks through the probe.
READERS = ("discover", "validate")
CONNECTING = cases(__file__, "connecting")


@pytest.mark.parametrize("words", CONNECTING.values(), ids=CONNECTING)
def test_password_reaches_every_node_and_no_file(place, words):
    code, said = ask(place, BECOME, *words)
    assert len((place / "answered").read_text().split()) >= 2, said
    assert "sudo re" not in said  # quires or jects
    # All others find no fabric between nodes that are the same machine.
    if words[0] == "validate":
        assert code == 0, said
    files = [path for path in place.rglob("*") if path.is_file()]
    assert not [path for path in files if BECOME.encode() in path.read_bytes()]
    assert BECOME not in said


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, id=name, marks=() if name in READERS else pytest.mark.long)
        for name, words in CONNECTING.items()
    ],
)
def test_wrong_password_is_told_as_that(place, words):
    code, said = ask(place, "wrong", *words)
    assert code != 0
    assert "sudo rejects the password" in " ".join(said.split()), said
    assert not (place / "answered").exists()


def options_of(verb: str) -> set[str]:
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    return {name for parameter in command.params for name in parameter.opts}


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_that_read_a_site_or_connect_have_the_same_options(verb):
    vault = {"--ask-vault-pass", "--vault-password-file"}
    wanted = vault if verb in ("check", "compile", "merge", "schedule") else set()
    connecting = ("accept", "apply", "discover", "plan", "record", "replace", "revert")
    if verb in (*connecting, "subnet", "tune", "validate", "watch"):
        wanted = {*vault, "--ask-become-pass"}
    assert options_of(verb) & {*vault, "--ask-become-pass"} == wanted
