"""All verbs alike: a text for each cause that a node cannot be asked, and one read of the site."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import re
import socket
import subprocess
import sys

import pytest
from tests.full_disk import full_disk
from tests.program import start
from tests.tables import cases
from tests.unit.helpers.sites import GOOD, write
from tests.unit.helpers.ssh_node import SSHD, Sshd
from tests.unit.helpers.waiting import until

from rdmaprov.exit_codes import ExitCode

pytestmark = [
    pytest.mark.waits,
    pytest.mark.program,
    pytest.mark.skipif(os.geteuid() != 0, reason="a survey needs root"),
]

VERBS = cases(__file__, "verbs")
# It ends by itself where it can watch nobody.
MORE = {"watch": ("--for", "5s")}
SHIM = "echo 'pyenv: python3.11: command not found' >&2; exit 127"  # as pyenv's shims end


def no_name(_place):
    return {"ansible_host": "no-such-node.invalid"}


def refused_key(place):
    given = Sshd(place).variables("node.example")
    return {**given, "ansible_ssh_private_key_file": str(place / "other_key")}


def unknown_host_key(place):
    return Sshd(place).variables("node.example", known="")


def refused_connection(_place):
    return {"ansible_host": "127.0.0.1", "ansible_port": 1}


@contextlib.contextmanager
def dropped_login(place):
    """Yield the variables of nodes whose sshd drops all logins: one waits that says nothing."""
    Sshd(place)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {"Port": port, "ListenAddress": "127.0.0.1", "HostKey": place / "host_key"}
    settings |= {"MaxStartups": "1:100:1", "LoginGraceTime": 900, "PidFile": "none"}
    (place / "sshd").write_text("".join(f"{name} {text}\n" for name, text in settings.items()))
    log = place / "log"
    with subprocess.Popen([str(SSHD), "-D", "-f", place / "sshd", "-E", log]) as sshd:
        try:
            assert until(lambda: log.exists() and "Server listening" in log.read_text())
            with socket.create_connection(("127.0.0.1", port)) as silent:
                assert silent.recv(4) == b"SSH-"
                yield {"ansible_host": "127.0.0.1", "ansible_port": port}
                assert "drop connection #1" in log.read_text()
        finally:
            sshd.terminate()


def no_sudo(place):
    given = Sshd(place).variables("node.example")
    become = {"ansible_become": True, "ansible_become_user": "nobody"}
    return {**given, **become, "ansible_become_exe": "/none/sudo"}


def no_python(place):
    return {**Sshd(place).variables("node.example"), "ansible_python_interpreter": "/none/python3"}


def pyenv_shim(place):
    shim = place / "python3"
    shim.write_text(f"#!/bin/sh\n{SHIM}\n")
    shim.chmod(0o755)
    return {**Sshd(place).variables("node.example"), "ansible_python_interpreter": str(shim)}


CAUSES = {
    no_name: "its name does not resolve. Set its ansible_host",
    refused_key: "ssh rejects the user or the key. Check ansible_user and",
    unknown_host_key: "its host key is unknown. Connect once by hand and compare the key",
    refused_connection: "ssh: connection refused. Is sshd running there? Try: ssh",
    dropped_login: "ssh: the node's sshd dropped the login (MaxStartups, or this address is bl",
    no_sudo: "sudo is not installed. Install it on the node, or log in as root",
    no_python: "python3 was not found. Set its ansible_python_interpreter",
    pyenv_shim: "python3.11 is a shim of pyenv, which has no such version set. Set its ansible_pyt",
}


# A verb's own purpose: `replace` shows both keys, so that somebody can compare them.
OWN = {("replace", unknown_host_key): "the host key of n1 is not verified, and nothing was sent"}


def said_by(place, verb, variables, *more):
    """Return a verb's exit code on two nodes, and what it printed; an error's remedy follows it."""
    shared = {
        "ansible_user": getpass.getuser(),
        "ansible_ssh_common_args": "-F none",
        "ansible_ssh_args": "-o ControlMaster=auto -o ControlPersist=5s",
        "ansible_control_path_dir": str(place / "cp"),  # none that another test opened
        "ansible_python_interpreter": sys.executable,
    }
    hosts = {"n1": {"unit": 1}, "n2": {"unit": 2}}
    nodes = {"nodes": {"hosts": hosts, "vars": {**shared, **variables}}}
    write(place / "site", {**GOOD, "hosts.yml": json.dumps(nodes)})
    (place / "test_own.py").write_text("def test_it(host):\n    host.run_test('true')\n")
    own = {"ANSIBLE_HOME": str(place / "ansible"), "COLUMNS": "400"}
    done = start(*VERBS[verb], *more, cwd=place, **own)
    return done.returncode, re.sub(r"\n *hint: +", ". ", done.stdout + done.stderr)


@pytest.fixture
def keys(tmp_path):
    made = tmp_path / "keys"
    made.mkdir()
    return made


@pytest.mark.long
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("cause", CAUSES, ids=lambda each: each.__name__)
def test_cause_is_one_text_and_one_exit_code(tmp_path, keys, cause, verb):
    made = cause(keys)
    with made if cause is dropped_login else contextlib.nullcontext(made) as variables:
        code, said = said_by(tmp_path, verb, variables)
    assert code == ExitCode.UNKNOWN, said
    # validate writes NODE for a node's name; nodes with one cause are one line in all verbs
    # (discover ends with a line that names the first).
    text = OWN.get((verb, cause), CAUSES[cause])
    lines = [each for each in said.replace("NODE", "n1").splitlines() if text in each]
    assert 1 <= len(lines) <= 2, said


@pytest.mark.long
@pytest.mark.parametrize("verb", VERBS)
def test_node_whose_disk_is_full_is_asked_all_the_same(tmp_path, keys, verb):
    """What a verb reads needs no file there; these nodes lack rails, which is what is found."""
    with full_disk(tmp_path / "disk") as disk:
        given = Sshd(keys).variables("node.example", f"SetEnv HOME={disk.path} TMPDIR={disk.path}")
        code, said = said_by(tmp_path, verb, given, *MORE.get(verb, ()))
    assert not re.search("unreachable|could not read|No space left", said), said
    right = {"validate": 0, "record": 0, "discover": ExitCode.UNKNOWN}
    assert code == right.get(verb, ExitCode.FAILED), said


# Ansible's plugin `script` starts it for each reading; who did is the parent's command line.
SCRIPT = "#!/bin/sh\n{ tr '\\0' ' ' < /proc/$PPID/cmdline; echo; } >> %s\ncat %s\n"


@pytest.mark.parametrize("verb", VERBS)
def test_verb_reads_its_site_once(tmp_path, verb):
    given = Sshd(tmp_path).variables("node.example")
    hosts = {"n1": {"unit": 1}, "n2": {"unit": 2}}
    shared = {**given, "ansible_python_interpreter": sys.executable}
    listed = {"nodes": {"hosts": [*hosts], "vars": shared}, "_meta": {"hostvars": hosts}}
    (tmp_path / "hosts.json").write_text(json.dumps(listed))
    files = {name: text for name, text in GOOD.items() if name != "hosts.yml"}
    log = tmp_path / "readings"
    files["hosts"] = SCRIPT % (log, tmp_path / "hosts.json")
    (write(tmp_path / "site", files) / "hosts").chmod(0o755)
    (tmp_path / "test_own.py").write_text("def test_it(host):\n    host.run_test('true')\n")
    own = {"ANSIBLE_HOME": str(tmp_path / "ansible"), "COLUMNS": "400"}
    done = start(*VERBS[verb], *MORE.get(verb, ()), cwd=tmp_path, **own)
    assert re.search(r"n1|n\[1-2\]|2 nodes", done.stdout + done.stderr), done
    readers = [line for line in log.read_text().splitlines() if "ansible-playbook" not in line]
    assert len(readers) == 1, readers
