"""Files from elsewhere: a URL, or a path on the node. Runs on the node."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
import urllib.error
import urllib.request
from typing import IO

from ..machine import Machine, NodeError

TIMEOUT_S = 60
SMALL_BYTES = 1 << 20
FILE_BYTES = 8 << 30  # the largest archive of MLNX_OFED has 1.3 GiB
FILE_TIMEOUT_S = 3600


def text(url: str) -> str:
    """Return a small file's text.

    Raises:
        NodeError: it cannot be read, or is not small.
    """
    try:
        with urllib.request.urlopen(_url(url), timeout=TIMEOUT_S) as source:  # noqa: S310
            data: bytes = source.read(SMALL_BYTES + 1)
    except (OSError, ValueError) as error:
        raise NodeError(f"{url} cannot be read: {_reason(error)}") from error
    if len(data) > SMALL_BYTES:
        raise NodeError(f"{url} has more than {SMALL_BYTES} bytes; is the URL right?")
    return data.decode("utf-8", "surrogateescape")


def file(machine: Machine, url: str, sha256: str, name: str) -> None:
    """Have a file of the node's that is what its checksum says, whole or not at all.

    Raises:
        NodeError: it cannot be read or written, or it is another one.
    """
    path = machine.path(name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".rdmaprov-", dir=os.path.dirname(path))
    try:
        with open(handle, "wb") as target:
            with urllib.request.urlopen(_url(url), timeout=TIMEOUT_S) as source:  # noqa: S310
                _copy(source, target)
            target.flush()
            os.fsync(target.fileno())
        seen = digest(temporary)
        if seen != sha256.lower():
            raise NodeError(
                f"{url} has SHA-256 {seen}, expected {sha256.lower()} "
                "(ofed_package_sha256); it was not installed"
            )
        os.replace(temporary, path)
    except (OSError, ValueError) as error:
        raise NodeError(f"{url} cannot be copied to {name}: {_reason(error)}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _copy(source: IO[bytes], target: IO[bytes]) -> None:
    """Copy a file, within limits: a server that trickles, or never ends, holds up a node."""
    end, size = time.monotonic() + FILE_TIMEOUT_S, 0
    for part in iter(lambda: source.read(1 << 20), b""):
        size += len(part)
        if size > FILE_BYTES:
            raise ValueError(f"it has more than {FILE_BYTES} bytes")
        if time.monotonic() > end:
            raise ValueError(f"it took more than {FILE_TIMEOUT_S} s")
        target.write(part)


def digest(path: str) -> str:
    """Return a file's SHA-256, in hexadecimal digits."""
    known = hashlib.sha256()
    with open(path, "rb") as source:
        for part in iter(lambda: source.read(1 << 20), b""):
            known.update(part)
    return known.hexdigest()


def _url(written: str) -> str:
    return "file://" + written if written.startswith("/") else written


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
    code = getattr(error, "code", None)
    return f"{code} {reason}" if code else str(reason)
