"""Files that are there completely or not at all, and what to say of those that are not."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from rdmaprov.errors import RdmaprovError
from rdmaprov.exit_codes import ExitCode

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class NotWritten(RdmaprovError):
    """The work was done, and a file about it cannot be written."""

    exit_code = ExitCode.UNKNOWN


def not_written(missed: Mapping[Path, OSError], then: str) -> NotWritten:
    """Return the error for files that cannot be written.

    Args:
        missed: the first error of each file.
        then: what to do when the cause is removed.

    """
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
        path: the file.
        text: its new content, or the parts of it.
        mode: its permissions, less the umask.

    Raises:
        OSError: it cannot be written; with the name of the file.

    """
    parts = [text] if isinstance(text, str) else text
    write_bytes_whole(path, (each.encode("utf-8", "backslashreplace") for each in parts), mode=mode)


def write_bytes_whole(path: Path, parts: Iterable[bytes], *, mode: int = 0o600) -> None:
    """Write a file completely, or leave what was there.

    Args:
        path: the file.
        parts: of its new content.
        mode: its permissions, less the umask.

    Raises:
        OSError: it cannot be written; with the name of the file.

    """
    unfinished = path.with_name(f"{path.name}.new")
    try:
        file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(file, "wb") as opened:
            opened.writelines(parts)
        unfinished.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # a directory, say, that is not ours
            unfinished.unlink(missing_ok=True)
        # A full disk's error has no name.
        raise OSError(error.errno, error.strerror, error.filename or str(path)) from error
