"""Which rank gives what at which element, and what becomes of it; for numbers and for tensors.

Sums are exact by construction. At each element, at most ACTIVE ranks give a value that is not zero,
each from 1 to SPAN. So every partial sum, in any order of adding, on any tree or ring, is a whole
number from 0 to ACTIVE · SPAN = 120. Each type has all of them: int8 up to 127, bfloat16 up to
256 (8 bits of significand, and 2^8), float16 up to 2,048. No rounding happens at any number of
ranks, so a sum is right or wrong, without a bound. No sum is zero, so data that never arrived is
seen, and a rank that is left out or counted twice changes the sums where it is active.

Which ranks are active rotates with the element: PERIOD elements have every rank in turn, up to
65,528 of them. A salt turns it further, so that small messages, too, have others each time.
"""

from __future__ import annotations

from typing import Any

PERIOD = 8191  # prime: what lands a power of two away from its place is seen
ACTIVE = 8
SPAN = 15
MOST_RANKS = ACTIVE * PERIOD
_OWN_SPAN = 113  # prime; up to 113² ranks have values of their own


def summand(rank: Any, index: Any, ranks: int, salt: int) -> Any:
    """Return what a rank gives at an element to a collective that adds.

    Args:
        rank: in its group; a number or a tensor.
        index: of the element, less than PERIOD; a number or a tensor.
    """
    is_active = (rank - ACTIVE * (index + salt)) % ranks < ACTIVE
    return (1 + (7919 * index + 104729 * rank) % SPAN) * is_active


def total(index: Any, ranks: int, salt: int) -> Any:
    """Return the sum of what all ranks give at an element."""
    first = ACTIVE * (index + salt) % ranks
    return sum(
        1 + (7919 * index + 104729 * ((first + place) % ranks)) % SPAN
        for place in range(min(ACTIVE, ranks))
    )


def own(rank: Any, index: Any) -> Any:
    """Return what a rank gives at an element to a collective that only moves data: 1 to 113."""
    turn = 31 * (rank // _OWN_SPAN) * (index + 1)
    return 1 + (7919 * index + 104729 * rank + turn) % _OWN_SPAN


def pair_rounds(ranks: int) -> list[list[tuple[int, int]]]:
    """Return four rounds of disjoint pairs, in which each rank meets up to four others.

    Two rounds are of neighbours, which mostly share a node, and two of ranks far apart.
    """
    half, found = ranks // 2, []
    for offset in (0, 1):
        near = [((i + offset) % ranks, (i + offset + 1) % ranks) for i in range(0, ranks - 1, 2)]
        far = [(i, ranks - half + (i + offset) % half) for i in range(half)]
        found += [near, far]
    met: set[frozenset[int]] = set()
    rounds = []
    for pairs in found:
        new = [(min(pair), max(pair)) for pair in pairs if frozenset(pair) not in met]
        met.update(frozenset(pair) for pair in new)
        rounds.append(new)
    return [pairs for pairs in rounds if pairs]
