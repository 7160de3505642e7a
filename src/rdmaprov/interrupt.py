"""Stop a run of Ansible: ask it to stop, kill it after a while, leave no process behind."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType

from rdmaprov import marked

# Ansible gives its workers 5 s to end by themselves, then ends them (WORKER_SHUTDOWN_POLL_*).
GRACE_S = 15.0
_LEFTOVERS_S = 3.0
_MARK = "RDMAPROV_RUN"


def _signals() -> list[signal.Signals]:
    """Return the signals to stop; without SIGHUP under nohup, which ignores it."""
    hung_up = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else []
    return [signal.SIGINT, signal.SIGTERM, *hung_up]


@contextlib.contextmanager
def signals_interrupt() -> Iterator[None]:
    """Turn every signal to stop into KeyboardInterrupt, so that contexts are closed."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Interrupt:
    """The signals that stop a run of Ansible: SIGINT, SIGTERM, and SIGHUP when the terminal closes.

    As a context it handles these signals and restores the handlers at the end. Then it ends what
    is left of the run: all of it after a signal, or else the ssh of a task that ended at its time
    limit. It finds the processes by a variable in their environment: Ansible's workers have
    sessions of their own. A kept ssh connection (ControlPersist) overwrites its environment; it
    stays for the next run, or ends by itself.

    If this process is killed (SIGKILL), a guard, in a session of its own, ends them.
    """

    def __init__(self) -> None:
        self.count = 0
        self._id = uuid.uuid4().hex
        self._deadline = 0.0

    @property
    def environment(self) -> dict[str, str]:
        """Return the variable that marks each process of the run."""
        return {_MARK: self._id}

    @property
    def _marked(self) -> str:
        return f"{_MARK}={self._id}"

    def __enter__(self) -> "Interrupt":
        """Start the guard and handle the signals."""
        # Only this process holds the other end of its standard input.
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(marked.__file__)), self._marked],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
        )
        self._before = {number: signal.signal(number, self._count_signal) for number in _signals()}
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType
    ) -> None:
        """End what the run left, then restore the handlers."""
        try:
            self._end_leftovers()
        finally:
            self._end_guard()
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def _end_guard(self) -> None:
        with self._guard:  # closes its standard input
            self._guard.kill()

    def _count_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1

    def must_kill(self) -> bool:
        """Return whether Ansible must be killed; ask it to stop after the first signal.

        A second signal means at once. Call it about once a second.
        """
        if not self.count:
            return False
        if not self._deadline:
            self._deadline = time.monotonic() + GRACE_S
            for process in marked.marked_processes(self._marked):
                if _parent(process) == os.getpid():
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process, signal.SIGINT)
        return self.count > 1 or time.monotonic() > self._deadline

    def _end_leftovers(self) -> None:
        deadline = time.monotonic() + _LEFTOVERS_S
        number = signal.SIGTERM
        while marked.signal_marked(self._marked, number) and number == signal.SIGTERM:
            time.sleep(0.1)
            if time.monotonic() > deadline:
                number = signal.SIGKILL


def _parent(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0
    return int(status.rpartition(")")[2].split()[1])
