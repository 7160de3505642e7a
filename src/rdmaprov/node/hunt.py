"""Processes that are found and ended by a mark in their environment, where systemd does not run."""

import ctypes
import os
import signal
import time

VARIABLE = "RDMAPROV_ACCEPTANCE"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
HUNT_S = 2


def follow_parent():
    """Have this process end with its parent."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans():
    """Have the orphans of this process's children become its own."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def read_bytes(*parts):
    """Return a file's bytes, none if it cannot be read."""
    try:
        with open(os.path.join(*parts), "rb") as file:
            return file.read()
    except OSError:
        return b""


def process_state(pid):
    """Return a process's state as in /proc, empty if there is none."""
    text = read_bytes("/proc", str(pid), "stat").decode("ascii", "replace")
    return text.rpartition(")")[2][1:2]


def find_processes(mark):
    """Return the processes with the mark in their environment or arguments, but this one."""
    found = []
    entry = (VARIABLE + "=" + mark).encode()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        if process_state(int(name)) in ("", "Z"):
            continue
        environment = read_bytes("/proc", name, "environ").split(b"\0")
        words = read_bytes("/proc", name, "cmdline").split(b"\0")
        if entry in environment or mark.encode() in words:
            found.append(int(name))
    return found


def end_all(mark):
    """Kill what has the mark, until nothing is left or two seconds have passed."""
    end = time.monotonic() + HUNT_S
    while time.monotonic() < end:
        reap()
        left = find_processes(mark)
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.05)


def reap():
    """Take the exit statuses of orphans that became ours."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except OSError:
        pass
