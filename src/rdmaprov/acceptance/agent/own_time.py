"""Time of this thread without that in which it only waited for a processor."""

from __future__ import annotations

import time
from pathlib import Path

# Nanoseconds on a processor, nanoseconds in its queue, and times that it got one
# (kernel, Documentation/scheduler/sched-stats.rst).
_SCHEDSTAT = Path("/proc/thread-self/schedstat")


def own_seconds() -> float:
    """Return a clock's seconds: it stands still while others have the processors.

    What sleeps, reads, or is stopped still takes its time. Where the kernel does not count, it is
    the wall clock.
    """
    try:
        waited_ns = int(_SCHEDSTAT.read_text().split()[1])
    except (OSError, IndexError, ValueError):
        waited_ns = 0
    return time.perf_counter() - 1e-9 * waited_ns
