"""What an acceptance finds wrong, or could not find out."""

from __future__ import annotations

from dataclasses import dataclass

from rdmaprov.problem import printable


@dataclass(frozen=True)
class Finding:
    """One thing that keeps nodes from being accepted.

    Args:
        what: what is wrong: seen, wanted, and where it was read.
        remedy: what to write or to run.
        node: the node, empty if it concerns several.
        rail: the rail's number, None if it concerns no rail.
        proven: whether it is known to be wrong; else nothing is known of it.

    """

    what: str
    remedy: str
    node: str = ""
    rail: int | None = None
    proven: bool = True

    @property
    def text(self) -> str:
        """Return the finding as one line."""
        where = self.node
        if self.rail is not None:
            where = f"{where} rail {self.rail}".strip()
        what = self.what.rstrip(".")
        told = what if self.proven else f"could not tell: {what}"
        return printable(f"{where}: {told}. {self.remedy}" if where else f"{told}. {self.remedy}")

    def as_data(self) -> dict[str, object]:
        """Return the finding as JSON has it."""
        return {
            "node": self.node,
            "rail": self.rail,
            "what": self.what,
            "remedy": self.remedy,
            "proven": self.proven,
        }
