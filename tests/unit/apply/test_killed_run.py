"""A run that is killed with SIGKILL leaves no process, and begins nothing more."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.tables import cases
from tests.unit.helpers.waiting import until

from rdmaprov import interrupt
from rdmaprov.marked import marked_processes, signal_marked

SOON_S = 10  # on a busy machine
START_S = 60
# Each try is new for the node, and none needs Ansible's main process.
RUN = cases(__file__, "run")


@contextmanager
def run(directory: Path, variables: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    hosts = directory / "hosts.yml"
    hosts.write_text(f"all:\n  hosts:\n    n1: {{{variables}}}\n")
    mark = f"TMPDIR={directory}"
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, str(hosts), str(directory / "begun")],
        env={**os.environ, "TMPDIR": str(directory)},
        start_new_session=True,
    )
    try:
        yield process, mark
    finally:
        signal_marked(mark, signal.SIGKILL)
        process.wait()


@pytest.mark.program
def test_killed_run_ends_ansible_and_its_workers(tmp_path: Path):
    begun = tmp_path / "begun"
    local = f"ansible_connection: local, ansible_python_interpreter: {sys.executable}"
    with run(tmp_path, local) as (process, mark):
        assert until(begun.exists, START_S)
        assert len(marked_processes(mark)) > 1
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert until(lambda: not marked_processes(mark), SOON_S)
        before = begun.read_text()
        time.sleep(1)
        assert begun.read_text() == before


@pytest.mark.program
def test_killed_run_ends_an_ssh_that_still_connects(tmp_path: Path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent.settimeout(START_S)
        port = silent.getsockname()[1]
        variables = f"ansible_host: 127.0.0.1, ansible_port: {port}, ansible_timeout: 600"
        with run(tmp_path, variables) as (process, mark), silent.accept()[0] as connection:
            process.kill()
            process.wait()
            connection.settimeout(SOON_S)
            while connection.recv(4096):  # its greeting, then the end
                pass
            assert until(lambda: not marked_processes(mark), SOON_S)


def test_guard_ends_with_its_run():
    with interrupt.Interrupt() as stop:
        guard = stop._guard
        assert guard.poll() is None
    assert guard.returncode == -signal.SIGKILL


def test_run_that_ends_well_leaves_nothing_behind():
    with interrupt.Interrupt() as stop:
        left = subprocess.Popen(
            ["sleep", "600"], env={**os.environ, **stop.environment}, start_new_session=True
        )
        (mark,) = ("=".join(each) for each in stop.environment.items())
        # The kernel shows a program's variables a moment after it has begun.
        assert until(lambda: left.pid in marked_processes(mark))
        assert left.poll() is None
    assert left.wait(SOON_S) == -signal.SIGTERM
