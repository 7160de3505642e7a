"""Find the time from which a rate is another one."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rdmaprov.rail_counters.change_points import best_cut

# Our choice: far beyond the 1 % by which equal runs differ, and half of what one rail of eight is.
LEAST_CHANGE = 0.06
# A gate asks once in a run, not once in a bin, so five deviations of the mean are enough.
_DEVIATIONS = 5.0
_LEAST_BINS = 10


@dataclass(frozen=True)
class RateChange:
    """A change of a rate.

    Args:
        place: the first value after it.
        before: the median before it.
        after: the median after it.

    """

    place: int
    before: float
    after: float


def change_point(rates: Sequence[float]) -> RateChange | None:
    """Return where a rate falls for good, None if it does not.

    It is cut once, where its two parts differ most (`change_points.best_cut`). A soak's times are
    cut again and again instead: their levels come and go.
    """
    if len(rates) < 2 * _LEAST_BINS:
        return None
    cut = best_cut(rates, _LEAST_BINS, weigh=float)
    if not cut.place:
        return None
    before, after = statistics.median(rates[: cut.place]), statistics.median(rates[cut.place :])
    steps = [abs(b - a) for a, b in pairwise(rates)]
    noise = 1.4826 * statistics.median(steps) / math.sqrt(2)
    if after > (1 - LEAST_CHANGE) * before or cut.fall < _DEVIATIONS * noise:
        return None
    return RateChange(cut.place, before, after)
