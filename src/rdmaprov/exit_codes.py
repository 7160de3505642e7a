"""What a run of `rdmaprov` tells its caller."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every verb; UNKNOWN is never to be read as OK."""

    OK = 0
    FAILED = 1  # a check or a node failed
    USAGE = 2
    INVALID_SITE = 3
    UNKNOWN = 4  # could not tell: unreachable, timed out
    PENDING = 5  # changes or a reboot are due
    INTERRUPTED = 130
