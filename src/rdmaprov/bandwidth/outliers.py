"""Outliers: statistics that hold for two values and for thousands."""

import math
import statistics
from collections.abc import Mapping

# A median absolute deviation is 0.6745 standard deviations of a normal distribution.
_TO_SIGMA = 1.4826
# Of 4,000 normal values, the largest is under 5 sigma but once in 900 times; times of computers
# have longer tails, hence 8.
_SIGMAS = 8.0


def high(values: Mapping[str, float], least_ratio: float, least: float = 0.0) -> dict[str, float]:
    """Return those that are far above the others, with how many times the others' median.

    One stands out if it is above the median by 8 sigma, by the factor, and by the least amount.
    Sigma is from the median absolute deviation, so that bad ones do not hide themselves. Of two,
    there is no deviation and the factor decides; each is compared with the others' median.

    Args:
        least_ratio: factor above the others' median.
        least: difference from the others' median, in the values' unit.
    """
    if len(values) < 2:
        return {}
    middle = statistics.median(values.values())
    deviation = statistics.median(abs(value - middle) for value in values.values())
    limit = middle + _SIGMAS * _TO_SIGMA * deviation if len(values) > 3 else -math.inf
    found = {}
    for name, value in values.items():
        usual = _others(values, name, middle)
        if value > limit and value > usual * least_ratio and value - usual > least:
            found[name] = value / usual if usual > 0 else math.inf
    return found


def _others(values: Mapping[str, float], name: str, middle: float) -> float:
    """Return the median of the others; that of all is as good where there are many."""
    if len(values) > 32:
        return middle
    return statistics.median(value for other, value in values.items() if other != name)
