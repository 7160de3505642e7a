"""The values that ranks give, and whether their sums are right."""

from __future__ import annotations

from typing import Any

PERIOD = 8191  # prime: what lands a power of two away from its place is seen


class Values:
    """What each rank gives, and what all of them together must become.

    Element j of rank r is ((7919 j + 104729 r) mod 17) - 8, and rank 0 adds (31 j mod 13) + 1. So
    sums stay small however many ranks there are, and are never all zero.
    """

    def __init__(self, torch: Any, ranks: int, device: Any) -> None:
        self._torch = torch
        self._device = device
        self._index = torch.arange(PERIOD, dtype=torch.int64)
        self._ranks = ranks
        self._sum = torch.zeros(PERIOD, dtype=torch.int64)
        self._most = torch.zeros(PERIOD, dtype=torch.int64)
        shifts = [0] * 17
        for rank in range(1, ranks):
            shifts[rank * 104729 % 17] += 1
        for shift, count in enumerate(shifts):
            given = (self._index * 7919 + shift) % 17 - 8
            self._sum += count * given
            self._most += count * given.abs()
        self._sum += self.values_of(0)
        self._most += self.values_of(0).abs()

    def values_of(self, rank: int) -> Any:
        """Return what a rank gives, for one period."""
        given = (self._index * 7919 + rank * 104729) % 17 - 8
        return given + self._index * 31 % 13 + 1 if rank == 0 else given

    def fill(self, buffer: Any, rank: int) -> None:
        """Write what a rank gives."""
        self._spread(buffer, self.values_of(rank).to(self._device).to(buffer.dtype))

    def _spread(self, buffer: Any, period: Any) -> None:
        whole = buffer.numel() // PERIOD * PERIOD
        buffer[:whole].view(-1, PERIOD)[:] = period
        buffer[whole:] = period[: buffer.numel() - whole]

    def wrong_sums(self, buffer: Any) -> tuple[int, int, float, float]:
        """Return how many sums are wrong, and index, value and right value of the first."""
        return self._compare(buffer, self._sum, self._bound(buffer.dtype))

    def wrong_values(self, buffer: Any, rank: int) -> tuple[int, int, float, float]:
        """Return the same of what one rank gives."""
        return self._compare(buffer, self.values_of(rank), self._torch.zeros(PERIOD))

    def _bound(self, kind: Any) -> Any:
        """Return how far a sum may be off: 0 where every order of adding is exact.

        Else n - 1 roundings, each of at most half an epsilon of the sum of all magnitudes (Higham,
        Accuracy and Stability of Numerical Algorithms, 4.2).
        """
        if not kind.is_floating_point:
            return self._torch.zeros(PERIOD)
        epsilon = self._torch.finfo(kind).eps
        bound = self._most * (self._ranks - 1) * epsilon / 2 * 1.01
        return self._torch.where(self._most <= 2 / epsilon, 0.0, bound.double())

    def _compare(
        self, buffer: Any, wanted: Any, bound: Any, chunk: int = 4096 * PERIOD
    ) -> tuple[int, int, float, float]:
        wanted, bound = wanted.to(self._device), bound.to(self._device)
        count, first = 0, (-1, 0.0, 0.0)
        for start in range(0, buffer.numel(), chunk):
            part = buffer[start : start + chunk]
            right = wanted.repeat(-(-part.numel() // PERIOD))[: part.numel()]
            limit = bound.repeat(-(-part.numel() // PERIOD))[: part.numel()]
            # Not "greater": what is not a number is wrong as well.
            bad = ~((part.double() - right).abs() <= limit)
            if count == 0 and bool(bad.any()):
                at = int(bad.nonzero()[0])
                first = (start + at, float(part[at]), float(right[at]))
            count += int(bad.sum())
        return (count, *first)
