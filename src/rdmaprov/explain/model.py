"""What a text shows: facts, findings, what it proves, and what would tell more."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from rdmaprov.exit_codes import ExitCode
from rdmaprov.finding.finding import Finding

UNREAD = "input.unread"


@dataclass(frozen=True)
class Shown:
    """What a text shows, or several texts that are of one job.

    Args:
        input: the id of its row in the table of inputs; empty if no row knows it.
        files: the names of its files.
        says: facts, one line each.
        findings: what is wrong, and what is unknown.
        proves: what is known to be right; empty if nothing is.
        lacks: what would tell more, one line each.
        parsed: what was read, for those that join it with other texts.
    """

    input: str
    files: tuple[str, ...]
    says: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    proves: str = ""
    lacks: tuple[str, ...] = ()
    parsed: tuple[object, ...] = ()

    @property
    def code(self) -> ExitCode:
        """Return 1 if something is wrong, 0 if something is right and nothing unknown, else 4."""
        if any(each.proven for each in self.findings):
            return ExitCode.FAILED
        return ExitCode.UNKNOWN if self.findings or not self.proves else ExitCode.OK


def unread(name: str, what: str, remedy: str) -> Finding:
    """Return that a file, or a part of it, is unknown."""
    return Finding(UNREAD, what, remedy, proven=False, part=name)


def worst(codes: Iterable[ExitCode]) -> ExitCode:
    """Return 1 if one of them is, else 4 if one of them is, else 0."""
    every: Collection[ExitCode] = set(codes)
    for code in (ExitCode.FAILED, ExitCode.UNKNOWN):
        if code in every:
            return code
    return ExitCode.OK
