"""Tensors with the values that ranks give, and whether what becomes of them is right."""

from __future__ import annotations

from typing import Any

from .pattern import PERIOD, own, summand, total

# What is compared at a time: 64 MiB of its double-precision copy.
_CHUNK = 1024 * PERIOD
Wrong = tuple[int, int, float, float]  # how many; index, value and right value of the first
NONE_WRONG: Wrong = (0, -1, 0.0, 0.0)


class Values:
    """The values of one rank in a group."""

    def __init__(self, torch: Any, rank: int, ranks: int, device: Any) -> None:
        self._torch, self._device = torch, device
        self.rank, self.ranks = rank, ranks
        self._index = torch.arange(PERIOD, dtype=torch.int64)

    def fill_summands(self, buffer: Any, salt: int) -> None:
        """Write what this rank gives to a sum."""
        _spread(buffer, self._summands(salt).to(self._device).to(buffer.dtype))

    def wrong_summands(self, buffer: Any, salt: int) -> Wrong:
        """Return what is no more as this rank gave it."""
        return self._compare(buffer, self._summands(salt))

    def wrong_totals(self, buffer: Any, start: int, salt: int) -> Wrong:
        """Return which sums are wrong; the buffer begins with the sum of element `start`."""
        sums = total(self._index, self.ranks, salt)
        return self._compare(buffer, sums.roll(-(start % PERIOD)))

    def fill_own(self, buffer: Any) -> None:
        """Write what this rank gives to be moved."""
        for begin in range(0, buffer.numel(), _CHUNK):
            part = buffer[begin : begin + _CHUNK]
            part.copy_(own(self.rank, self._range(begin, part.numel()) % PERIOD))

    def wrong_moved(self, blocks: Any, first: int, start: int) -> Wrong:
        """Return what arrived wrong.

        Args:
            blocks: a row of each rank from `first` on.
        """
        rows, columns = blocks.shape
        ranks = self._range(first, rows)[:, None]
        found = NONE_WRONG
        step = max(1, _CHUNK // rows)
        for begin in range(0, columns, step):
            part = blocks[:, begin : begin + step]
            index = self._range(start + begin, part.shape[1]) % PERIOD
            found = _join(found, self._differences(part, own(ranks, index[None, :]), begin))
        return found

    def _summands(self, salt: int) -> Any:
        return summand(self.rank, self._index, self.ranks, salt)

    def _range(self, begin: int, count: int) -> Any:
        return self._torch.arange(
            begin, begin + count, dtype=self._torch.int64, device=self._device
        )

    def _compare(self, buffer: Any, period: Any) -> Wrong:
        period, found = period.to(self._device), NONE_WRONG
        for begin in range(0, buffer.numel(), _CHUNK):
            part = buffer[begin : begin + _CHUNK]
            right = period.repeat(-(-part.numel() // PERIOD))[: part.numel()]
            found = _join(found, self._differences(part, right, begin))
        return found

    def _differences(self, part: Any, right: Any, begin: int) -> Wrong:
        # Not "less or greater": what is not a number is wrong as well.
        bad = part.double() != right.double()
        count = int(bad.sum())
        if not count:
            return NONE_WRONG
        at = bad.nonzero()[0]
        place = tuple(int(each) for each in at)
        return count, begin + place[-1], float(part[place]), float(right[place])


def _join(one: Wrong, other: Wrong) -> Wrong:
    first = one if one[0] else other
    return (one[0] + other[0], *first[1:])


def _spread(buffer: Any, period: Any) -> None:
    whole = buffer.numel() // PERIOD * PERIOD
    buffer[:whole].view(-1, PERIOD)[:] = period
    buffer[whole:] = period[: buffer.numel() - whole]
