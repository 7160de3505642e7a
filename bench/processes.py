"""What a command costs with all processes that it starts: time, memory, open files.

Memory is the sum of PSS (a page that n processes share counts one nth for each) at the moment
when it was largest, sampled about twice a second. ssh clients count apart: they are ssh's own, and
their number is what the program decides.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_EVERY_S = 0.5
# A sample's processor time is at most the run's, divided by this.
_SHARE = 50
_PR_SET_CHILD_SUBREAPER = 36
_SSH = ("ssh", "sftp", "scp")


@dataclass
class Peak:
    """The largest values that were seen; memory in MB (1,000,000 bytes)."""

    python_mb: float = 0  # of the program and Ansible
    ssh_mb: float = 0  # of all ssh clients
    processes: int = 0  # of the program and Ansible, at the same time
    clients: int = 0  # ssh clients, at the same time
    files: int = 0  # open files of one process


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    seconds: float
    code: int
    stdout: str
    stderr: str
    peak: Peak

    def line(self) -> str:
        """Return the cost as a row of a bench."""
        peak = self.peak
        return (
            f"{self.seconds:7.1f} s  {peak.python_mb:6.0f} MB in {peak.processes} processes  "
            f"{peak.ssh_mb:5.0f} MB in {peak.clients} of ssh's  {peak.files:4} files"
        )


def measure(
    argv: Sequence[str | os.PathLike[str]], at: Path, environment: Mapping[str, str], files: int
) -> Finished:
    """Run a command and return what it cost.

    Args:
        argv: the command.
        at: its working directory.
        environment: is added to this process's own.
        files: its limit of open files, soft and hard; 0 leaves that as it is.
    """
    # So that ssh's masters, which leave their parent, stay in sight.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    others = set(_children().get(os.getpid(), ()))
    limit = ["prlimit", f"--nofile={files}:{files}"] if files else []
    peak, over = Peak(), threading.Event()
    watch = threading.Thread(target=_watch, args=(others, peak, over))
    start = time.perf_counter()
    with (at / "stdout").open("w+") as out, (at / "stderr").open("w+") as err:
        process = subprocess.Popen(
            [*limit, *argv],
            cwd=at,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
        watch.start()
        code = process.wait()
        seconds = time.perf_counter() - start
        over.set()
        watch.join()
        out.seek(0)
        err.seek(0)
        return Finished(seconds, code, out.read(), err.read(), peak)


def _watch(others: set[int], peak: Peak, over: threading.Event) -> None:
    pause = _EVERY_S
    while not over.wait(pause):
        start = time.thread_time()
        _sample(others, peak)
        pause = max(_EVERY_S, _SHARE * (time.thread_time() - start))


def _sample(others: set[int], peak: Peak) -> None:
    python_kb = ssh_kb = processes = clients = 0
    here = Path("/proc/self/ns/net").readlink()
    for pid in _descendants(os.getpid(), others):
        try:
            if Path(f"/proc/{pid}/ns/net").readlink() != here:
                continue  # what a node or a relay of ours has left behind
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            used = _pss_kb(Path(f"/proc/{pid}/smaps_rollup").read_text())
            files = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
        except OSError:
            continue  # it has ended
        if name in _SSH:
            ssh_kb, clients = ssh_kb + used, clients + 1
        else:
            python_kb, processes = python_kb + used, processes + 1
        peak.files = max(peak.files, files)
    peak.python_mb = max(peak.python_mb, python_kb * 1024 / 1e6)
    peak.ssh_mb = max(peak.ssh_mb, ssh_kb * 1024 / 1e6)
    peak.processes = max(peak.processes, processes)
    peak.clients = max(peak.clients, clients)


def _pss_kb(rollup: str) -> int:
    return next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))


def _descendants(root: int, others: set[int]) -> Iterator[int]:
    children = _children()
    waiting = [pid for pid in children.get(root, ()) if pid not in others]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += children.get(pid, ())


def _children() -> dict[int, list[int]]:
    """Return the processes of this machine by their parent."""
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            # The name, which may contain anything, is in parentheses before the parent.
            parent = int(stat.rpartition(")")[2].split()[1])
            found.setdefault(parent, []).append(int(entry.name))
    return found
