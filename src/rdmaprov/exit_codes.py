"""What a run of `rdmaprov` tells its caller."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every verb; UNKNOWN is never to be read as OK."""

    OK = 0
    FAILED = 1
    USAGE = 2
    INVALID_SITE = 3
    UNKNOWN = 4
    PENDING = 5
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.OK: "ok",
    ExitCode.FAILED: "a check or a node failed",
    ExitCode.USAGE: "usage",
    ExitCode.INVALID_SITE: "the site is invalid",
    ExitCode.UNKNOWN: "could not tell (unreachable, timed out)",
    ExitCode.PENDING: "changes or a reboot are due",
    ExitCode.INTERRUPTED: "interrupted",
}
