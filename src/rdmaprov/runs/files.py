"""Files that are there completely or not at all, and what to say of those that are not."""

import contextlib
import errno
import os
import secrets
import shlex
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from rdmaprov.errors import RdmaprovError, UsageError
from rdmaprov.exit_codes import ExitCode

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class NotWritten(RdmaprovError):
    """The work was done, and a file about it cannot be written."""

    exit_code = ExitCode.UNKNOWN


def not_written(missed: Mapping[Path, OSError], then: str) -> NotWritten:
    """Return the error for files that cannot be written."""
    by_reason: dict[str, list[str]] = {}
    for path, error in missed.items():
        by_reason.setdefault(error.strerror or str(error), []).append(str(path))
    what = "; ".join(f"{', '.join(paths)}: {reason}" for reason, paths in by_reason.items())
    is_full = all(error.errno in FULL for error in missed.values())
    remedy = "Free space there" if is_full else "Make that possible"
    return NotWritten(f"cannot write {what}", f"{remedy}, then {then}")


def write_whole(path: Path, text: str | Iterable[str], *, mode: int = 0o600) -> None:
    """Write a file completely, or leave what was there.

    A lone surrogate, which UTF-8 lacks, becomes an escape.

    Args:
        mode: its permissions, less the umask.

    Raises:
        OSError: it cannot be written; with the name of the file.
    """
    parts = [text] if isinstance(text, str) else text
    write_bytes_whole(path, (each.encode("utf-8", "backslashreplace") for each in parts), mode=mode)


def write_bytes_whole(path: Path, parts: Iterable[bytes], *, mode: int = 0o600) -> None:
    """Write a file completely, or leave what was there, also if the machine fails.

    A link is not followed, and stays.

    Raises:
        OSError: it cannot be written; with the name of the file.
    """
    unfinished = path.with_name(f".rdmaprov-{secrets.token_hex(8)}")
    _require_replaceable(path)
    try:
        # Of a name that nobody knows before, and as nobody else's: a directory may be a stranger's.
        file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with os.fdopen(file, "wb") as opened:
            opened.writelines(parts)
            opened.flush()
            os.fsync(file)
        unfinished.replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        # A full disk's error has no name, and the other name says nothing to anybody.
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)


def _require_replaceable(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # the system refuses a directory
            raise OSError(errno.ELOOP, "it is a link, a pipe or a device, and no file", str(path))


def _sync_directory(directory: Path) -> None:
    with contextlib.suppress(OSError):  # a file system that cannot: the file is there nonetheless
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def read_whole(path: Path, most_bytes: int) -> bytes:
    """Return what a file has; a pipe or a device, which could be waited for, is none.

    Args:
        path: the file, which may be a stranger's.

    Raises:
        FileNotFoundError: there is none.
        OSError: it is no file, exceeds the size, or cannot be read; `strerror` says so.
    """
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "it is no file", str(path))
        with os.fdopen(opened, "rb", closefd=False) as file:
            data = file.read(most_bytes + 1)
    finally:
        os.close(opened)
    if len(data) > most_bytes:
        limit = f"{most_bytes >> 20} MiB" if most_bytes >> 20 else f"{most_bytes} bytes"
        raise OSError(errno.EFBIG, f"it exceeds {limit}", str(path))
    return data


def require_own(runs: Path) -> None:
    """Raise UsageError for a directory of runs that is another user's, or that others can write."""
    try:
        found = runs.stat()
    except OSError:
        return
    where = f"{runs.absolute()}"
    if found.st_uid != os.geteuid():
        raise UsageError(
            f"{where} is another user's (user {found.st_uid})",
            "Run as that user, or in another directory",
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError(f"{where}: others can write it", f"Run: chmod go-w {shlex.quote(where)}")
