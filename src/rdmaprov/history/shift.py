"""How a series of a site's runs changed: to another level at once, or little by little."""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rdmaprov.rail_counters.change_points import MIN_CHANGE, change_points, running_medians

WINDOW = 200  # newest values that are looked at; our choice: four years of weekly runs
_TREND = 30  # of the trend
_LEAST_SHARE = 1e-3  # of the median: a rail that sent nothing has no logarithm


@dataclass(frozen=True, slots=True)
class Shift:
    """A change of a series."""

    place: int  # of the first value of the new level; of a drift, of its beginning
    end: int  # one after the last value that the change is about
    before: float
    after: float  # the level after it; of a drift, the median of its last three values
    is_drift: bool

    @property
    def share(self) -> float:
        """Return the relative change: -0.2 is a fifth less."""
        return self.after / self.before - 1


def shifts(values: Sequence[float]) -> list[Shift]:
    """Return when a series changed, in order; nothing below ten values.

    Whether there is a change says `change_points`, by the variance that it explains against the
    noise between neighbours. Cuts in one direction that follow one another are one region. Of
    that, a level that ends in a slope is fitted by least squares too; whichever has the lower
    BIC is taken (Schwarz, Estimating the Dimension of a Model, Annals of Statistics 6, 1978).

    Args:
        values: in the order of time; not negative.
    """
    least = _LEAST_SHARE * statistics.median(values) if values else 0.0
    if least <= 0:
        return []
    clean = [max(least, each) for each in values]
    smooth = running_medians(clean)
    if max(smooth) < min(smooth) * (1 + MIN_CHANGE):  # no two levels of it differ enough
        return []
    cuts = change_points(clean)
    if not cuts:
        return []
    logs = [math.log(each) for each in smooth]
    return [_shift(logs, *region) for region in _regions(logs, cuts)]


def _regions(values: Sequence[float], cuts: list[int]) -> list[tuple[int, list[int], int]]:
    """Return where each change begins, its cuts, and where it ends."""
    ends = [0, *cuts, len(values)]
    levels = [statistics.fmean(values[slice(*each)]) for each in itertools.pairwise(ends)]
    rises = [two > one for one, two in itertools.pairwise(levels)]
    groups: list[list[int]] = []
    for number, cut in enumerate(cuts):
        if number and rises[number] == rises[number - 1]:
            groups[-1].append(cut)
        else:
            groups.append([cut])
    bounds = [0, *(own[0] for own in groups[1:]), len(values)]
    starts = [0, *(own[-1] for own in groups[:-1])]
    return list(zip(starts, groups, bounds[1:], strict=True))


def _shift(values: Sequence[float], start: int, cuts: list[int], end: int) -> Shift:
    own = values[start:end]
    levels = [values[slice(*each)] for each in itertools.pairwise([start, *cuts, end])]
    at_once = sum(_spread(level) for level in levels)
    onset, base, gradual = _slope(own)
    if _bic(gradual, 3, len(own)) < _bic(at_once, 2 * len(cuts) + 1, len(own)):
        return Shift(start + onset + 1, end, math.exp(base), math.exp(own[-1]), is_drift=True)
    # Of several cuts in one direction, the first and the last level.
    before, after = (math.exp(statistics.fmean(level)) for level in (levels[0], levels[-1]))
    return Shift(cuts[0], end, before, after, is_drift=False)


def _spread(values: Sequence[float]) -> float:
    middle = statistics.fmean(values)
    return sum((each - middle) ** 2 for each in values)


def _slope(values: Sequence[float]) -> tuple[int, float, float]:
    """Return the last place of the level, the level, and the squares that its slope leaves."""
    count = len(values)
    best = (0, 0.0, math.inf)
    middle = statistics.fmean(values)
    for onset in range(count - 2):
        ramp = [max(0, at - onset) for at in range(count)]
        mean = sum(ramp) / count
        square = sum((each - mean) ** 2 for each in ramp)
        both = sum((one - mean) * (two - middle) for one, two in zip(ramp, values, strict=True))
        slope = both / square
        base = middle - slope * mean
        left = sum((two - base - slope * one) ** 2 for one, two in zip(ramp, values, strict=True))
        if left < best[2]:
            best = (onset, base, left)
    return best


def _bic(left: float, parameters: int, count: int) -> float:
    """Return the criterion; what is left over is at least what rounding to 0.1 % leaves."""
    return count * math.log(left / count + 1e-7) + parameters * math.log(count)


def trend(values: Sequence[float]) -> float:
    """Return the relative change for each run of the newest values: the median of all slopes.

    (Sen, Estimates of the Regression Coefficient Based on Kendall's Tau, JASA 63, 1968.)
    """
    newest = values[-_TREND:]
    middle = statistics.median(newest) if newest else 0.0
    slopes = [
        (two - one) / (later - earlier)
        for (earlier, one), (later, two) in itertools.combinations(enumerate(newest), 2)
    ]
    return statistics.median(slopes) / middle if slopes and middle > 0 else 0.0
