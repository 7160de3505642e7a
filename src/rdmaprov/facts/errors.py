"""What could not be read."""

from rdmaprov.errors import RdmaprovError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.problem import printable


class CouldNotTell(RdmaprovError):
    """A fact that could not be read: neither right nor wrong.

    Args:
        why: where it was read and what was there, in one line.
    """

    exit_code = ExitCode.UNKNOWN

    def __init__(self, why: str, run: str = "") -> None:
        super().__init__(printable(f"unknown: {why}"), run)
        self.why = printable(why)

    def __str__(self) -> str:
        """Return it on one line."""
        return f"{self.message}. On the node: {self.hint}" if self.hint else self.message


class NotInstalled(CouldNotTell):
    """A program that would tell is not there."""
