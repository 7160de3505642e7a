"""One thing that is wrong with a port of a switch, or not known of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rdmaprov.switches.model import SwitchFact


class SwitchLevel(StrEnum):
    """How it counts: a note does not count in the verdict."""

    WRONG = "wrong"
    UNKNOWN = "unknown"
    NOTE = "note"


@dataclass(frozen=True)
class SwitchProblem:
    """What was seen on a port.

    Args:
        level: how it counts.
        fact: of what; None of an answer that is not read.
        seen: in words.
        expected: in words; empty if nothing is expected.
        source: who expects it; empty if nothing is expected.
        where: the command or table that says what is seen.
        remedy: what to type on the switch; empty if that is not known.

    """

    level: SwitchLevel
    fact: SwitchFact | None
    seen: str
    expected: str = ""
    source: str = ""
    where: str = ""
    remedy: str = ""

    @property
    def sentence(self) -> str:
        """Return what was seen, what was expected, by whom, and where it was read."""
        expected = f", expected {self.expected}" if self.expected else ""
        told = [self.source, f"read: {self.where}" if self.where else ""]
        inside = "; ".join(each for each in told if each)
        return f"{self.seen}{expected}" + (f" ({inside})" if inside else "")
