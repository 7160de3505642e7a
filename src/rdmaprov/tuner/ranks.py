"""What a median difference is at least, by ranks: true for noise of any symmetric shape.

A difference of two measurements that differ by noise alone is symmetric about zero, however long
the tails of the noise are. So the signed-rank test needs no normal noise (F. Wilcoxon, Individual
comparisons by ranking methods, 1945), and its bound follows from the averages of all pairs
(J. Hodges and E. Lehmann, Estimates of location based on rank tests, 1963).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache


def centre(values: Sequence[float]) -> float:
    """Return the median of the averages of all pairs; not a number without values."""
    if not values:
        return math.nan
    averages = _averages(values)
    middle = len(averages) // 2
    return (averages[middle] + averages[~middle]) / 2


def lower_bound(values: Sequence[float], error: float) -> float:
    """Return what the centre is at least, except with this probability.

    Args:
        error: the probability that the centre is less, such as 0.05.

    Returns:
        Minus infinity if there are too few values to say it.
    """
    allowed = _below(len(values), error)
    return _averages(values)[allowed - 1] if allowed else -math.inf


def _averages(values: Sequence[float]) -> list[float]:
    return sorted(
        (one + other) / 2 for index, one in enumerate(values) for other in values[: index + 1]
    )


@lru_cache(maxsize=64)
def _below(count: int, error: float) -> int:
    """Return how many averages may lie below the centre, except with this probability.

    Of values that are symmetric about zero, each set of ranks is as likely to be the positive ones.
    """
    sums = [1] + [0] * (count * (count + 1) // 2)
    for rank in range(1, count + 1):
        for total in range(len(sums) - 1, rank - 1, -1):
            sums[total] += sums[total - rank]
    reached, allowed = 0, 0
    for ways in sums:
        reached += ways
        if reached > error * 2**count:
            break
        allowed += 1
    return allowed
