"""The exit codes of `rdmaprov`."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every verb; UNKNOWN never means OK."""

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
    ExitCode.USAGE: "wrong usage",
    ExitCode.INVALID_SITE: "the site is invalid",
    ExitCode.UNKNOWN: "unknown: a node is unreachable, or something is not verified",
    ExitCode.PENDING: "changes pending or a reboot required",
    ExitCode.INTERRUPTED: "interrupted",
}
