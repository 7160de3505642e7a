"""When a series of measurements changed: at which points another level begins."""

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# By chance, one of 10,000 series shows a change; a fleet's soak has some hundreds.
_CHANCE = 1e-4
# Our choice: repeated runs on healthy fleets differ by 1 to 2 %.
MIN_CHANGE = 0.05
_LEAST = 5  # points of a level
_SPIKE = 2  # values in a row that are no level: a median of five points takes them away
_MAD = 0.6745  # of a normal distribution with a deviation of 1


def change_points(values: Sequence[float]) -> list[int]:
    """Return where another level begins, in order.

    The series is cut where the two parts' means explain most of its variance, if that is not by
    chance; then each part in the same way. (Scott and Knott, A Cluster Analysis Method for Grouping
    Means, Biometrics 30, 1974.) Values are compared by ratio, and a running median goes first, so
    one or two slow values are no change. The noise is that between neighbours, which levels do
    not enlarge.

    Args:
        values: in the order of time, more than zero.
    """
    if len(values) < 2 * _LEAST:
        return []
    logs = [math.log(each) for each in values]
    steps = [abs(two - one) for one, two in itertools.pairwise(logs)]
    noise = statistics.median(steps) / _MAD / math.sqrt(2)
    smooth = running_medians(logs)
    # The largest of n values of chi-square exceeds 2 ln(n / chance) by that chance; neighbours of a
    # running median are alike, which makes sums of them vary up to twice as much.
    least = 2 * 2 * math.log(len(values) / _CHANCE) * noise**2
    return _distinct(smooth, _split(smooth, least), math.log1p(MIN_CHANGE))


def running_medians(values: Sequence[float]) -> list[float]:
    """Return a series without what one or two odd values do."""
    spans = (slice(max(0, at - _SPIKE), at + _SPIKE + 1) for at in range(len(values)))
    return [statistics.median(values[span]) for span in spans]


def _split(values: Sequence[float], least: float) -> list[int]:
    cut = best_cut(values, _LEAST)
    if cut.fall**2 <= least:
        return []
    at = cut.place
    return [*_split(values[:at], least), at, *(at + each for each in _split(values[at:], least))]


def _distinct(values: Sequence[float], cuts: list[int], min_change: float) -> list[int]:
    """Return the cuts between levels that differ enough; the least different are joined first.

    Only now: the first cut of a short spell has most of the others on both of its sides.
    """
    while cuts:
        ends = [0, *cuts, len(values)]
        levels = [statistics.fmean(values[slice(*each)]) for each in itertools.pairwise(ends)]
        steps = [abs(two - one) for one, two in itertools.pairwise(levels)]
        if min(steps) >= min_change:
            break
        cuts = [cut for cut, step in zip(cuts, steps, strict=True) if step > min(steps)]
    return cuts


@dataclass(frozen=True, slots=True)
class Cut:
    """A series in two parts."""

    place: int  # of the first value of the second part
    # how much higher the first part's mean is, times sqrt(n1 n2 / n): the CUSUM statistic, whose
    # square is the variance that the cut explains
    fall: float


def best_cut(values: Sequence[float], least: int, weigh: Callable[[float], float] = abs) -> Cut:
    """Return the cut into the two most different parts; a fall of 0 if there is none.

    Args:
        values: in the order of time.
        weigh: of a fall; what is largest is best. By default rises count like falls.
    """
    count, whole = len(values), sum(values)
    best, before = Cut(0, 0.0), 0.0
    for at, value in enumerate(values[: max(0, count - least)], start=1):
        before += value
        if at >= least:
            difference = before / at - (whole - before) / (count - at)
            cut = Cut(at, difference * math.sqrt(at * (count - at) / count))
            best = max(best, cut, key=lambda each: weigh(each.fall))
    return best
