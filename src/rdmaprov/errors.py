"""Errors that a user can fix."""

from rdmaprov.exit_codes import ExitCode


class RdmaprovError(Exception):
    """An error that is shown as two lines: what is wrong, and what to do."""

    exit_code = ExitCode.FAILED

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(RdmaprovError):
    """The command line names something that does not exist, or options that exclude each other."""

    exit_code = ExitCode.USAGE


class UnreachableError(RdmaprovError):
    """Something gave no answer that can be used, so its state is unknown."""

    exit_code = ExitCode.UNKNOWN
