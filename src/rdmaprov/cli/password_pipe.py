"""A password that programs read from a path, and that is in no file."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def password_pipe(path: Path, password: str) -> Iterator[Path]:
    """Provide a named pipe from which each reader gets the password; remove it at the end.

    Readers that may be there at the same time take turns (inventory.password_file).

    A program that is killed leaves the pipe, which is a name without content. A sealed memfd
    would leave nothing, but Ansible resolves the path of --become-password-file, and
    /proc/PID/fd/N resolves to a name that does not exist.

    Args:
        path: does not exist yet; in a directory of this user alone.
        password: without the end of the line.

    """
    os.mkfifo(path, 0o600)
    ended = threading.Event()
    writer = threading.Thread(
        target=_write_to_each, args=(path, password.encode() + b"\n", ended), daemon=True
    )
    writer.start()
    try:
        yield path
    finally:
        ended.set()
        with _reader(path):  # which the writer may wait for
            writer.join()
        path.unlink(missing_ok=True)


def _write_to_each(path: Path, line: bytes, ended: threading.Event) -> None:
    """Write a line to each reader in turn; a reader of a file reads until the end."""
    following = path.with_suffix(".next")
    try:
        while not ended.is_set():
            with path.open("wb", buffering=0) as pipe:  # waits for a reader
                if ended.is_set():
                    return
                # The next reader has a pipe of its own: this one may still be reading.
                os.mkfifo(following, 0o600)
                following.replace(path)
                with contextlib.suppress(BrokenPipeError):
                    pipe.write(line)
    except OSError:
        path.unlink(missing_ok=True)  # a reader would wait for ever


@contextlib.contextmanager
def _reader(path: Path) -> Iterator[None]:
    """Hold a pipe open for reading, without waiting for its writer."""
    try:
        pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        yield
        return
    try:
        yield
    finally:
        os.close(pipe)
