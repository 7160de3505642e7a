"""How a run of Ansible is stopped: asked, made to after a while, and nothing is left of it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType

# Ansible gives its workers 5 s to end by themselves, then ends them (WORKER_SHUTDOWN_POLL_*).
GRACE_S = 15.0
_LEFTOVERS_S = 3.0
_MARK = "RDMAPROV_RUN"


def _signals() -> list[signal.Signals]:
    """Return the signals that mean to stop; SIGHUP not under nohup, which ignores it."""
    hung_up = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else []
    return [signal.SIGINT, signal.SIGTERM, *hung_up]


@contextlib.contextmanager
def signals_interrupt() -> Iterator[None]:
    """Have every signal to stop raise KeyboardInterrupt, so that what is open gets closed."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Interrupt:
    """The wish to stop a run of Ansible: SIGINT, SIGTERM, or SIGHUP when the terminal is gone.

    As a context it takes these signals; afterwards they are what they were, and no process of the
    run is left if it was stopped, or if the block raised. Processes are known by a variable in
    their environment: Ansible's workers have sessions of their own, ssh's masters no parent.
    """

    def __init__(self) -> None:
        self.count = 0
        self._id = uuid.uuid4().hex
        self._deadline = 0.0

    @property
    def environment(self) -> dict[str, str]:
        """Return what each process of the run must have in its environment."""
        return {_MARK: self._id}

    def __enter__(self) -> Interrupt:
        """Take the signals."""
        self._before = {number: signal.signal(number, self._count_signal) for number in _signals()}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType
    ) -> None:
        """Give the signals back, when nothing of a stopped run is left."""
        try:
            if self.count or kind is not None:
                self._end_leftovers()
        finally:
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def _count_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1

    def must_kill(self) -> bool:
        """Return whether Ansible must be killed; ask it to stop when that is first wished.

        A second signal means at once. To be called about once a second.
        """
        if not self.count:
            return False
        if not self._deadline:
            self._deadline = time.monotonic() + GRACE_S
            for process in self._processes():
                if _parent(process) == os.getpid():
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process, signal.SIGINT)
        return self.count > 1 or time.monotonic() > self._deadline

    def _end_leftovers(self) -> None:
        deadline = time.monotonic() + _LEFTOVERS_S
        number = signal.SIGTERM
        while processes := self._processes():
            if time.monotonic() > deadline:
                number = signal.SIGKILL
            for process in processes:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(process, number)
            time.sleep(0.1)
            if number == signal.SIGKILL:
                return

    def _processes(self) -> list[int]:
        mark = f"{_MARK}={self._id}".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue  # ended meanwhile, or another user's
            if mark in environment:
                found.append(int(entry.name))
        return found


def _parent(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0
    return int(status.rpartition(")")[2].split()[1])
