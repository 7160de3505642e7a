"""Files that hold a password, which may be pipes."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def one_reader(path: Path | None) -> Iterator[None]:
    """Be the only process that reads a named pipe of passwords; a plain file needs no turns.

    Of two readers that opened the same pipe, one gets the password and the other nothing. One that
    found it just before it was replaced by the next would wait for ever.

    Args:
        path: of the pipe; what is none, or cannot be read, is left to its reader.
    """
    if path is None or not _is_pipe(path):
        yield
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def read_password(path: Path) -> str:
    """Return the password in a file or pipe.

    Raises:
        OSError, UnicodeDecodeError: it cannot be read.
    """
    with one_reader(path):
        return path.read_text().rstrip("\r\n")


def _is_pipe(path: Path) -> bool:
    try:
        return stat.S_ISFIFO(path.stat().st_mode)
    except OSError:
        return False
