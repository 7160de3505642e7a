"""Ansible is run so that an interrupt stays the program's."""

import os
import signal
import socket
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rdmaprov.apply import limits
from rdmaprov.errors import UsageError
from rdmaprov.runner import run_ansible

pytestmark = pytest.mark.program

PING: dict[str, Any] = {"host_pattern": "all", "module": "ansible.builtin.ping"}


def inventory(path: Path, variables: str) -> str:
    file = path / "hosts.yml"
    file.write_text(f"all:\n  hosts:\n    n1: {{{variables}}}\n")
    return str(file)


def test_signals_are_the_programs_again_afterwards(tmp_path: Path):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    local = f"ansible_connection: local, ansible_python_interpreter: {sys.executable}"
    assert run_ansible(inventory=inventory(tmp_path, local), **PING) == 0
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before


def test_within_a_job_of_ansible_runner(tmp_path: Path, monkeypatch):
    """As AWX starts a playbook, one of whose tasks is the program."""
    monkeypatch.setenv("ANSIBLE_STDOUT_CALLBACK", "awx_display")
    local = f"ansible_connection: local, ansible_python_interpreter: {sys.executable}"
    assert run_ansible(inventory=inventory(tmp_path, local), **PING) == 0


def test_collection_of_another_version_is_not_used(tmp_path: Path, monkeypatch):
    """As `ansible-galaxy collection install` puts it where Ansible looks first."""
    module = tmp_path / "ansible_collections/rdmaprov/node/plugins/modules/limits.py"
    module.parent.mkdir(parents=True)
    module.write_text("#!/usr/bin/python\nprint('{\"changed\": true}')\n")
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", str(tmp_path))
    local = f"ansible_connection: local, ansible_python_interpreter: {sys.executable}"
    wanted: dict[str, Any] = {
        "host_pattern": "all",
        "module": "rdmaprov.node.limits",
        "module_args": "odd=1",
    }
    assert run_ansible(inventory=inventory(tmp_path, local), **wanted) == 2


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


def test_ansible_of_another_python_is_no_node_that_does_not_answer(tmp_path, monkeypatch):
    """After `pip install --target` or from a wheel alone: said once, before anything runs."""
    where = str(tmp_path / "bin/python3")
    monkeypatch.setattr("rdmaprov.runner.sys", SimpleNamespace(executable=where, argv=[where]))
    monkeypatch.setattr("sysconfig.get_path", lambda _scheme: str(tmp_path))
    monkeypatch.setattr("site.getuserbase", lambda: str(tmp_path))
    monkeypatch.setattr("ansible.__file__", str(tmp_path / "ansible/__init__.py"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="ansible-playbook is not installed beside"):
        run_ansible(inventory="nowhere", **PING)
    beside = tmp_path / "bin/ansible-playbook"
    beside.parent.mkdir()
    beside.write_text("#!/bin/sh\n")
    beside.chmod(0o755)
    given: dict[str, Any] = {}
    monkeypatch.setattr("ansible_runner.run", lambda **settings: given.update(settings))
    run_ansible(inventory="nowhere", **PING)
    assert given["envvars"]["PATH"] == f"{beside.parent}:{tmp_path}"


@pytest.mark.parametrize("checks", [True, False])
def test_host_keys_are_checked_unless_the_user_has_ansible_leave_it(monkeypatch, checks: bool):
    """ansible-runner by itself turns the check off."""
    given: dict[str, Any] = {}
    monkeypatch.setattr("ansible_runner.run", lambda **settings: given.update(settings))
    monkeypatch.setattr("ansible.constants.HOST_KEY_CHECKING", checks)
    run_ansible(inventory="nowhere", **PING)
    assert given["envvars"]["ANSIBLE_HOST_KEY_CHECKING"] == str(checks)


@pytest.mark.parametrize(
    ("most", "begun"),
    [("0", ["n1", "n2", "n3"]), ("1", ["n1", "n2", "n3", "n4", "n5", "n6"]), ("2", None)],
)
def test_failures_end_a_run_as_ansible_counts_them(tmp_path: Path, most: str, begun: list[str]):
    """Each batch of three has a failure: n2 of the first, n4 and n5 of the second."""
    file = tmp_path / "hosts.yml"
    file.write_text("all:\n  hosts: {" + ", ".join(f"n{i}: {{}}" for i in range(1, 9)) + "}\n")
    serial = limits.parse_share("--serial", "3", 1)
    percentage = limits.max_fail_percentage(
        limits.parse_share("--max-failures", most, 0), serial, 8
    )
    fail = {"ansible.builtin.fail": {}, "when": "inventory_hostname in ['n2', 'n4', 'n5']"}
    play = {
        "hosts": "all",
        "gather_facts": False,
        "serial": str(serial),
        "max_fail_percentage": "{{ most }}",
        "tasks": [fail],
    }
    seen: list[str] = []

    def hear(event: dict[str, Any]) -> None:
        if event["event"] == "runner_on_start":
            seen.append(event["event_data"]["host"])

    run_ansible(
        8, inventory=str(file), playbook=[play], extravars={"most": percentage}, event_handler=hear
    )
    assert seen == (begun or [f"n{i}" for i in range(1, 9)])
