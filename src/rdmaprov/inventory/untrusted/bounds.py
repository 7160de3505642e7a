"""Memory and time that reading a stranger's site may take, enforced by the kernel."""

from __future__ import annotations

import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rdmaprov.inventory.errors import SiteError
from rdmaprov.inventory.untrusted import limits

_HINT = "Make the site smaller, or check it in a container without --untrusted."


class _OutOfTime(BaseException):
    """The time is over; no handler of errors catches it."""


@contextmanager
def bounded() -> Iterator[None]:
    """Limit what a block may take, on top of the limits of the site's own parts.

    Raises:
        SiteError: it took more.

    """
    megabytes = limits.MOST_MEMORY_BYTES // 1000**2
    try:
        with _limited(resource.RLIMIT_DATA, limits.MOST_MEMORY_BYTES), _timed():
            yield
    except MemoryError:
        message = f"reading the site takes more than {megabytes} MB of memory"
    except _OutOfTime:
        message = f"reading the site takes more than {limits.MOST_CPU_S} s of CPU time"
    else:
        return
    raise SiteError(message, _HINT)  # outside the handlers, which keep everything that was read


@contextmanager
def _limited(kind: int, most: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(kind)
    lowest = min((each for each in (soft, hard) if each != resource.RLIM_INFINITY), default=most)
    resource.setrlimit(kind, (min(most, lowest), hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


@contextmanager
def _timed() -> Iterator[None]:
    """Raise _OutOfTime when the process has used its time; threads cannot, and are not limited."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _OutOfTime

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limits.MOST_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
