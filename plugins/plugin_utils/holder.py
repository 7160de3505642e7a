"""Who holds a lock: a process on a controller, for those who find the lock taken."""

from __future__ import annotations

import os
import pwd
import secrets
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_ZOMBIE = "Z"  # it has ended, and its parent has not asked yet


@dataclass(frozen=True)
class Holder:
    """A run, by its process."""

    id: str  # of the run; random
    user: str
    host: str
    pid: int
    since: str
    run: str
    machine: str  # the boot and the namespace in which `pid` has a meaning
    started: int  # when it started, in the kernel's ticks since the boot

    def __str__(self) -> str:
        """Return it for a message."""
        run = f", run {self.run}" if self.run else ""
        return f"{self.user} on {self.host} (pid {self.pid}) since {self.since}{run}"

    def has_ended(self) -> bool:
        """Return whether it is certain that the process is gone; only its own machine can know."""
        if self.machine != _machine():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass  # another user's, of which /proc may show nothing
        found = _status(self.pid)
        return found is not None and (found[0] == _ZOMBIE or found[1] != self.started)


def living() -> list[str]:
    """Return the processes of this machine that are there, as `PID STARTED`."""
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [f"{pid} {found[1]}" for pid in pids if (found := _status(pid)) and found[0] != _ZOMBIE]


def of_process(pid: int, run: str) -> Holder:
    """Return a process of this machine as a holder; raise OSError if it has ended."""
    _, started = _status(pid) or (_ZOMBIE, 0)
    owner = Path(f"/proc/{pid}").stat().st_uid
    try:
        user = pwd.getpwuid(owner).pw_name
    except KeyError:
        user = str(owner)
    return Holder(
        secrets.token_hex(16),
        user,
        socket.gethostname(),
        pid,
        _time(started),
        run,
        _machine(),
        started,
    )


def _machine() -> str:
    # A process id means another process in another container, or after a reboot.
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {Path('/proc/self/ns/pid').readlink()}"


def _status(pid: int) -> tuple[str, int] | None:
    """Return a process's state and its start in ticks; None if /proc does not show it."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return words[0], int(words[19])


def _time(ticks: int) -> str:
    lines = Path("/proc/stat").read_text().splitlines()
    booted = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    when = booted + ticks / os.sysconf("SC_CLK_TCK")
    return f"{datetime.fromtimestamp(when, UTC):%Y-%m-%d %H:%M:%S} UTC"
