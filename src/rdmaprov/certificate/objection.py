"""What keeps a certificate from being valid."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from rdmaprov.exit_codes import ExitCode
from rdmaprov.problem import printable

KINDS = (
    "shape",
    "altered",
    "signer",
    "countersignature",
    "verdict",
    "expired",
    "log",
    "site",
    "replaced",
)
VERDICTS = {ExitCode.OK: "valid", ExitCode.FAILED: "refused", ExitCode.UNKNOWN: "unknown"}


@dataclass(frozen=True)
class Objection:
    """One reason why a certificate is not valid, or not known to be.

    Args:
        kind: one of KINDS.
        where: the place in the file, such as `predicate/floors/0/verdict`, or the node; empty for
            all of it.
        what: is wrong there.
        proven: whether it is wrong; else it is unknown.

    """

    kind: str
    where: str
    what: str
    proven: bool = True

    @property
    def text(self) -> str:
        """Return it as one line that no terminal obeys."""
        where = f"{self.where}: " if self.where else ""
        unknown = "" if self.proven else "unknown: "
        return printable(f"{unknown}{self.kind}: {where}{self.what}")


def exit_code(found: Collection[Objection]) -> ExitCode:
    """Return 1 if something is wrong, 4 if something is unknown, else 0."""
    if any(each.proven for each in found):
        return ExitCode.FAILED
    return ExitCode.UNKNOWN if found else ExitCode.OK
