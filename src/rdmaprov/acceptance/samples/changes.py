"""Find the time from which a rate is another one."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

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

    The place is the one that splits the rates into the two most different means, weighted by their
    lengths: binary segmentation with the CUSUM statistic (Scott and Knott, Biometrics 1974).
    """
    count = len(rates)
    if count < 2 * _LEAST_BINS:
        return None
    sums = list(accumulate(rates, initial=0.0))

    def fall(place: int) -> float:
        left, right = sums[place] / place, (sums[count] - sums[place]) / (count - place)
        return (left - right) * math.sqrt(place * (count - place) / count)

    place = max(range(_LEAST_BINS, count - _LEAST_BINS + 1), key=fall)
    before, after = statistics.median(rates[:place]), statistics.median(rates[place:])
    steps = [abs(b - a) for a, b in pairwise(rates)]
    noise = 1.4826 * statistics.median(steps) / math.sqrt(2)
    if after > (1 - LEAST_CHANGE) * before or fall(place) < _DEVIATIONS * noise:
        return None
    return RateChange(place, before, after)
