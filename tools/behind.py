"""Runs a command behind all else that wants the processors: python -m tools.behind COMMAND ...

`nice` says nothing between sessions where the kernel has a group for each (sched(7), "The autogroup
feature"), and virtual machines have sessions of their own. So the command gets a session, whose
group gives way, too. A signal to stop is passed on to all of its processes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

# Two thirds of the usual weight (sched(7)): what tells slow from hanging has
# time limits of its own.
NICE = 2
GROUP = Path("/proc/self/autogroup")
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def give_way() -> None:
    """Lower the priority of this process and of its session's group, and let it be stopped."""
    os.nice(NICE)
    with suppress(OSError):
        GROUP.write_text(str(NICE))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


def main(command: list[str]) -> int:
    """Run a command to its end; return its exit status, as a shell does for a signal."""
    # A stop that comes while the command is being started waits until there is a group to tell.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    child = subprocess.Popen(command, start_new_session=True, preexec_fn=give_way)
    for number in STOPS:
        signal.signal(number, lambda number, _: os.killpg(child.pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    status = child.wait()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
