"""How long a verb will take, as far as this site's earlier runs tell."""

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rdmaprov.exit_codes import ExitCode
from rdmaprov.runs.directory import runs_directory
from rdmaprov.runs.last_word import left_out
from rdmaprov.runs.results import MOST_READ, newest_paths, results_of
from rdmaprov.words import quantity

_MOST_RUNS = 5  # our choice: the newest, as sites change
_READ_S = 1.0  # our choice: somebody waits for the question
_SPREAD = 1.25  # our choice: one earlier run is no range yet
# Of a run that ended otherwise, nobody knows what it left out.
_WHOLE = (ExitCode.OK, ExitCode.FAILED, ExitCode.PENDING)
_LONGEST_S = 1e7


@dataclass(frozen=True)
class Expected:
    """The range of a duration, in seconds, and the number of runs that it rests on."""

    low_s: float
    high_s: float
    runs: int

    @property
    def text(self) -> str:
        """Return it as one line.

        >>> Expected(80, 250, 3).text
        'expected to take 1 to 5 min (3 earlier runs)'
        """
        minutes = (60, "min") if self.high_s < 5400 else (3600, "h")
        unit, name = (1, "s") if self.high_s < 90 else minutes
        low, high = math.floor(self.low_s / unit), math.ceil(self.high_s / unit)
        times = f"{low} to {high} {name}" if low else f"up to {high} {name}"
        return f"expected to take {times} ({quantity(self.runs, 'earlier run')})"


def in_turn(parts: Sequence[Expected | None]) -> Expected | None:
    """Return the sum of what comes one after the other; None where one is not known."""
    known = [each for each in parts if each is not None]
    if not known or len(known) < len(parts):
        return None
    sums = sum(each.low_s for each in known), sum(each.high_s for each in known)
    return Expected(*sums, min(each.runs for each in known))


def expected(
    site: Path,
    verb: str,
    nodes: int,
    *,
    batches: int = 1,
    roles: Collection[str] = (),
    stages: Collection[str] = (),
    soak_s: float = 0.0,
) -> Expected | None:
    """Return how long a verb will take; None where no earlier run of the site tells.

    A run of other nodes counts with both extremes: the number of nodes makes no difference, and
    the time is proportional to it.

    Args:
        batches: of apply, one after the other.
        roles: of apply; a run of others does not count.
        stages: of accept; a run counts that had them all, by the time of these.
        soak_s: the stage soak takes this long.
    """
    found: list[tuple[float, float]] = []
    until = time.monotonic() + _READ_S
    for path in newest_paths(runs_directory(), verb)[:MOST_READ]:
        is_enough = len(found) >= _MOST_RUNS or time.monotonic() > until
        data = None if is_enough else results_of(path, site)
        try:
            if data is not None and data["exit_code"] in _WHOLE:
                found += _range(data, nodes, batches, set(roles), set(stages) - {"soak"})
        except (KeyError, TypeError, AttributeError):
            continue  # of another version, or somebody's work
    if not found:
        return None
    low, high = min(each for each, _ in found), max(each for _, each in found)
    return Expected(low / _SPREAD + soak_s, high * _SPREAD + soak_s, len(found))


def _range(
    data: Mapping[str, Any], nodes: int, batches: int, roles: set[str], stages: set[str]
) -> Iterator[tuple[float, float]]:
    """Yield the range that one run tells of; nothing if it did something else."""
    seconds = data["seconds"]
    if stages:
        ran = {each["name"]: each for each in data["stages"]}
        skipped = {name for name, each in ran.items() if each["state"] == "skipped"}
        if stages - ran.keys() or (data["exit_code"] and stages & skipped):
            return
        seconds = sum(ran[name]["seconds"] for name in stages)
    if set(data.get("roles", ())) != roles or left_out(data) or not 0 < seconds < _LONGEST_S:
        return
    ratio = nodes / max(len(data["nodes"]), 1)
    # How many batches the run had is not kept: its slowest node tells the time of one.
    slowest = max((each.get("seconds", 0) for each in data["nodes"].values()), default=0)
    one = slowest if data["verb"] == "apply" and 0 < slowest < seconds else seconds
    yield one * min(1, ratio) * batches, max(seconds, one * batches) * max(1, ratio)
