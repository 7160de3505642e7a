"""Passwords that the user types: Ansible gets them, and no file ever has them."""

import contextlib
import os
import shlex
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ansible.cli import CLI
from ansible.parsing.dataloader import DataLoader
from tests.program import encrypt_variable, spawn
from tests.tables import cases
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.cli.passwords import password_pipe
from rdmaprov.inventory.password_file import read_password
from rdmaprov.runner import run_ansible

VAULT, BECOME = "correct horse", "hunter22"
NODES = cases(__file__, "nodes")


def test_each_reader_gets_the_password(tmp_path: Path):
    with password_pipe(tmp_path / "vault", VAULT) as path:
        assert [path.read_text() for _ in range(20)] == [f"{VAULT}\n"] * 20
    assert list(tmp_path.iterdir()) == []


def test_workers_that_read_at_once_each_get_the_password(tmp_path: Path):
    with password_pipe(tmp_path / "vault", VAULT) as path, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(read_password, [path] * 200, timeout=60))
    assert found == [VAULT] * 200


def test_reader_that_reads_nothing_keeps_nobody_from_reading(tmp_path: Path):
    with password_pipe(tmp_path / "vault", VAULT) as path:
        path.open().close()
        assert path.read_text() == f"{VAULT}\n"


def test_pipe_that_nobody_reads_ends(tmp_path: Path):
    with password_pipe(tmp_path / "vault", VAULT):
        pass
    assert list(tmp_path.iterdir()) == []


def test_only_its_user_can_open_the_pipe(tmp_path: Path):
    with password_pipe(tmp_path / "vault", VAULT) as path:
        for _ in range(2):
            assert path.is_fifo()
            assert path.stat().st_mode & 0o777 == 0o600
            path.read_text()


def test_vault_is_opened_in_this_process(tmp_path: Path):
    with password_pipe(tmp_path / "vault", VAULT) as path:
        for _ in range(2):
            ((_, secret),) = CLI.setup_vault_secrets(
                DataLoader(), [], [str(path)], auto_prompt=False, initialize_context=False
            )
            assert secret.bytes == VAULT.encode()


def test_sudo_gets_the_password(tmp_path: Path):
    """Ansible resolves the path of this option, unlike that of the vault's password."""
    sudo = tmp_path / "sudo"
    sudo.write_text(
        '#!/bin/sh\nwhile [ "$1" != -p ]; do shift; done\nprintf %s "$2" >&2\n'
        f'read -r said\nprintf %s "$said" >{shlex.quote(str(tmp_path / "said"))}\n'
        'while [ "$1" != /bin/sh ]; do shift; done\nexec "$@"\n'
    )
    sudo.chmod(0o700)
    hosts = tmp_path / "hosts.yml"
    hosts.write_text(
        "all:\n  hosts:\n    n1:\n      ansible_connection: local\n      ansible_become: true\n"
        f"      ansible_python_interpreter: {sys.executable}\n      ansible_become_exe: {sudo}\n"
    )
    with password_pipe(tmp_path / "become", BECOME) as path:
        done = run_ansible(
            inventory=str(hosts),
            host_pattern="all",
            module="ansible.builtin.ping",
            cmdline=f"--become-password-file {path}",
            envvars={"ANSIBLE_BECOME_ALLOW_SAME_USER": "1"},  # this may be root
        )
    assert done == 0
    assert (tmp_path / "said").read_text() == BECOME


@pytest.fixture
def silent():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def place(tmp_path, silent):
    """Provide a directory with a site whose nodes' address only the vault's password opens."""
    password = tmp_path / "password"
    password.write_text(VAULT)
    encrypted = encrypt_variable("ansible_host", "127.0.0.1", password)
    password.unlink()
    hosts = NODES.format(port=silent.getsockname()[1])
    files = {**GOOD, "hosts.yml": hosts, "group_vars/nodes.yml": f"---\n{encrypted}"}
    write(tmp_path / "site", files)
    return tmp_path


def files_with(directory: Path, secret: str) -> list[Path]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return [path for path in files if secret.encode() in path.read_bytes()]


def processes_with(secret: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            said = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue  # ended
        if secret.encode() in said:
            found.append(process.name)
    return found


def marked(mark: str) -> set[int]:
    return {int(name) for name in processes_with(mark)}


def test_typed_passwords_are_in_no_file_and_no_process(place, silent):
    """Also after a SIGKILL, which leaves the temporary directory."""
    mark = f"TMPDIR={place}"
    words = ("plan", "site", "--ask-vault-pass", "--ask-become-pass")
    asked = spawn(*words, cwd=place, TMPDIR=str(place))
    for prompt, password in (("Vault password: ", VAULT), ("BECOME password: ", BECOME)):
        asked.expect(prompt)
        asked.sendline(password)
    try:
        with silent.accept()[0]:  # so Ansible has opened the vault, and ssh waits for an answer
            assert list(place.glob("rdmaprov-*/*"))
            for secret in (VAULT, BECOME):
                assert files_with(place, secret) == []
                assert processes_with(secret) == []
            os.killpg(asked.pid, signal.SIGKILL)
            asked.wait()
            assert list(place.glob("rdmaprov-*/become"))
            for secret in (VAULT, BECOME):
                assert files_with(place, secret) == []
                assert processes_with(secret) == []
    finally:
        for process in marked(mark):
            with contextlib.suppress(ProcessLookupError):  # Ansible ends by itself meanwhile
                os.kill(process, signal.SIGKILL)
        asked.close(force=True)
