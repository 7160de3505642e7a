"""All pairs of some things, in as few rounds as there can be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

_T = TypeVar("_T")


def round_robin(things: Sequence[_T]) -> Iterator[tuple[tuple[_T, _T], ...]]:
    """Yield rounds of disjoint pairs, such that each pair is in one of them.

    N - 1 rounds of N / 2 pairs for an even number; for an odd one N rounds, with one idle in each.
    One place is fixed and the others turn, as in a tournament. (Kirkman, 1847)
    """
    if len(things) < 2:
        return
    places: list[_T | None] = list(things)
    if len(places) % 2:
        places.append(None)  # the one paired with it is idle
    half = len(places) // 2
    for _ in range(len(places) - 1):
        facing = zip(places[:half], reversed(places[half:]), strict=True)
        yield tuple((one, two) for one, two in facing if one is not None and two is not None)
        places.insert(1, places.pop())
