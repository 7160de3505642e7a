"""The processes of a run, by a variable in their environment; as a program, end what a run left.

The program needs only Python's own library, and starts without anything else.
"""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

# One that was forked shows its variables once it has started its program.
_QUIET_S = 2.0
_PAUSE_S = 0.05


def marked_processes(mark: str) -> list[int]:
    """Return the processes, of this user, that have NAME=VALUE in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # ended meanwhile, or another user's
        if mark.encode() in environment:
            found.append(int(entry.name))
    return sorted(found)


def signal_marked(mark: str, number: signal.Signals) -> bool:
    """Send a signal to the processes; return whether there were any. Parents come first."""
    processes = marked_processes(mark)
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)
    return bool(processes)


def main() -> None:
    """End the processes as soon as the one that holds the other end of standard input is gone."""
    sys.stdin.buffer.read()
    last = time.monotonic()
    while time.monotonic() < last + _QUIET_S:
        if signal_marked(sys.argv[1], signal.SIGKILL):
            last = time.monotonic()
        time.sleep(_PAUSE_S)


if __name__ == "__main__":
    main()
