"""Ansible is run so that an interrupt stays the program's."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from pathlib import Path

import pytest

from rdmaprov.runner import run_ansible

PING = {"host_pattern": "all", "module": "ansible.builtin.ping"}


def inventory(path: Path, variables: str) -> str:
    file = path / "hosts.yml"
    file.write_text(f"all:\n  hosts:\n    n1: {{{variables}}}\n")
    return str(file)


def test_signals_are_the_programs_again_afterwards(tmp_path: Path):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    local = f"ansible_connection: local, ansible_python_interpreter: {sys.executable}"
    hosts = inventory(tmp_path, local)
    assert run_ansible(inventory=hosts, **PING).rc == 0
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before


def test_interrupt_ends_ansible_and_comes_through(tmp_path: Path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        hosts = inventory(
            tmp_path, f"ansible_host: 127.0.0.1, ansible_port: {silent.getsockname()[1]}"
        )

        def interrupt() -> None:
            silent.accept()  # so ssh runs, and waits for an answer
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            run_ansible(inventory=hosts, **PING)
