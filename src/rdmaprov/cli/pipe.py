"""Standard output: its reader may go, and then the run ends; JSON on it is alone."""

import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator

_CLOSED: list[bool] = []


class _GuardedFile(io.FileIO):
    """Standard output; when its reader has gone, the rest of what is written goes nowhere."""

    def write(self, data: object) -> int:
        """Write, or interrupt the run as Ctrl-C does: the verb knows what to keep."""
        try:
            return super().write(data)  # type: ignore[arg-type]
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            if not _CLOSED:
                _CLOSED.append(True)
                os.kill(os.getpid(), signal.SIGINT)
            return len(data)  # type: ignore[arg-type]


def guard_stdout() -> None:
    """Have an interrupt, once, when nobody reads standard output any more."""
    old = sys.stdout
    raw = _GuardedFile(old.fileno(), "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=old.encoding,
        errors=old.errors,
        line_buffering=bool(old.line_buffering),
    )


def is_closed() -> bool:
    """Return whether the reader of standard output has gone."""
    return bool(_CLOSED)


@contextlib.contextmanager
def to_stderr() -> Iterator[None]:
    """Have all output go to standard error, also that of other programs and of pytest."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 1)
        os.close(kept)
