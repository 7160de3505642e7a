"""What a user asks an acceptance for."""

import re
from dataclasses import dataclass

from rdmaprov.acceptance.stage_report import USUAL
from rdmaprov.errors import UsageError

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_MOST_S = 7 * 24 * 3600


def parse_duration(text: str, option: str = "--soak") -> float:
    """Return the seconds of a time such as 30m; 0 for none.

    Raises:
        UsageError: it is no time, or longer than a week.
    """
    if not text:
        return 0.0
    found = re.fullmatch(r"(\d{1,6})([smh]?)", text)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < seconds <= _MOST_S:
        raise UsageError(f"{option}: {text!r} is no time", "Write 90s, 30m or 2h, at most 168h")
    return float(seconds)


@dataclass(frozen=True)
class Options:
    """What a user asks for.

    Args:
        backend: `nccl`, `gloo` or `auto`: nccl where the site has GPUs.
        sizes: bytes of the messages; empty for all that fit.
        isolate: find what is at fault by testing groups if the run does not show it.
        limit_s: seconds that each job may take; None for what its parts may.
        soak_s: seconds of a soak at the end; 0 for none.
        keep_going: continue without the nodes that a stage found bad; else stop after it.
        cross_rail: test paths from each rail to the others, too.
        join: do not measure again what kept runs prove of nodes that are as they were.
    """

    backend: str = "auto"
    sizes: tuple[int, ...] = ()
    pairs: bool = False
    isolate: bool = True
    limit_s: float | None = None
    stages: tuple[str, ...] = USUAL
    soak_s: float = 0.0
    keep_going: bool = True
    cross_rail: bool = False
    join: bool = False

    @property
    def wanted(self) -> tuple[str, ...]:
        """Return the stages, with the soak if there is one."""
        return (*self.stages, "soak") if self.soak_s else self.stages
