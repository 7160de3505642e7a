"""What differs between two runs, as values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from rdmaprov.exit_codes import ExitCode
from rdmaprov.history.digest import RunDigest, RunSeries
from rdmaprov.history.standing import GOOD

_KNOWN = GOOD | {"failed", "pending"}


@dataclass(frozen=True)
class RunDifference:
    """A value that was one thing in the first run and is another in the second.

    Args:
        what: the name of the value, such as `NVIDIA driver` or `finding`.
        was: in the first run; empty if it was not there.
        nodes: on which; none if it is about all together.
        is_worse: whether that is for the worse; None where nobody can say.
    """

    what: str
    was: str
    now: str
    nodes: tuple[str, ...]
    is_worse: bool | None = None

    def as_data(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "what": self.what,
            "was": self.was,
            "now": self.now,
            "nodes": list(self.nodes),
            "worse": self.is_worse,
        }


@dataclass(frozen=True)
class Measured:
    """One measurement of both runs; `differs` if that is beyond what runs differ by anyway."""

    series: RunSeries
    was: float
    now: float
    differs: bool

    @property
    def share(self) -> float:
        """Return the relative change."""
        return self.now / self.was - 1 if self.was else math.inf

    @property
    def is_worse(self) -> bool:
        """Return whether it differs, and for the worse."""
        return self.differs and (self.share > 0) == self.series.lower_is_better

    def as_data(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            **self.series.as_data(),
            "was": self.was,
            "now": self.now,
            "share": round(self.share, 4) if self.was else None,
            "differs": self.differs,
            "worse": self.is_worse,
        }


@dataclass
class Comparison:
    """What differs between two runs of one verb.

    Attributes:
        first: the earlier one as the user named it.
        troubles: checks and findings that came or went.
        only_one: how many measurements only one of them has.
    """

    first: RunDigest
    second: RunDigest
    settings: list[RunDifference] = field(default_factory=list)
    states: list[RunDifference] = field(default_factory=list)
    troubles: list[RunDifference] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)
    only_one: int = 0

    def exit_code(self) -> ExitCode:
        """Return 1 if something is worse in the second run, 4 if nobody can say, else 0."""
        differ = any(each.is_worse for each in (*self.states, *self.troubles))
        if differ or any(each.is_worse for each in self.measured):
            return ExitCode.FAILED
        common = self.first.states.keys() & self.second.states.keys()
        known = (common or self.measured) and not self.unknown
        return ExitCode.OK if known else ExitCode.UNKNOWN

    @property
    def unknown(self) -> list[str]:
        """Return the nodes of both runs of which the second one does not know whether they pass."""
        now = self.second.states
        return [name for name in self.first.states if now.get(name, "failed") not in _KNOWN]
