"""Errors that a user can do something about."""

from __future__ import annotations

from rdmaprov.exit_codes import ExitCode


class RdmaprovError(Exception):
    """A problem of the user's, shown as two lines: what is wrong, and what to do.

    Args:
        message: what is wrong, naming the thing.
        hint: what to type or change next.

    """

    exit_code = ExitCode.FAILED

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(RdmaprovError):
    """The command line asks for something that does not exist or does not go together."""

    exit_code = ExitCode.USAGE


class UnreachableError(RdmaprovError):
    """Something did not answer, so nothing is known about it."""

    exit_code = ExitCode.UNKNOWN
