"""Whether the rails of a node carry alike, window by window."""

import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from rdmaprov.watch.thresholds import BUSY_SHARE, IMBALANCE, LEAST_WINDOWS, LOW_WINDOWS, WINDOW_S

Moved = tuple[int, int]  # bytes sent and received
_UNKNOWN_GBPS = 10


@dataclass
class LowRail:
    """A rail in the windows in which it carried too little, in one direction."""

    windows: int = 0
    run: int = 0  # how many of them were the last busy ones, without another one between
    moved: float = 0.0
    usual: float = 0.0  # what the usual rail of its node moved in them

    @property
    def share(self) -> float:
        """Return what it moved of what the usual rail did."""
        return self.moved / self.usual if self.usual else 1.0


class BalanceWindows:
    """The rails of one node that collectives use.

    Args:
        gbps: line rate of each rail, 0 if the site does not say it.
    """

    def __init__(self, gbps: Sequence[int], compute: Sequence[bool]) -> None:
        self.busy = 0
        self._rails = [rail for rail, is_compute in enumerate(compute) if is_compute]
        self._gbps = gbps
        self._low = {(rail, way): LowRail() for rail in self._rails for way in (0, 1)}
        self._shares = {key: deque([1.0], LEAST_WINDOWS) for key in self._low}
        self._moved = [[0, 0] for _ in gbps]
        self._length_s = 0.0

    def add(self, moved: Sequence[Moved], seconds: float) -> None:
        """Take in one answer of the node."""
        for own, (sent, received) in zip(self._moved, moved, strict=True):
            own[0] += sent
            own[1] += received
        self._length_s += seconds
        if self._length_s >= 0.95 * WINDOW_S:  # answers come a little early or late
            self._close()

    def _close(self) -> None:
        busy = False
        for way in (0, 1):
            values = [self._moved[rail][way] for rail in self._rails]
            usual = self._usual(values)
            gbps = max((self._gbps[rail] for rail in self._rails), default=0) or _UNKNOWN_GBPS
            if usual < BUSY_SHARE * gbps * 1e9 / 8 * self._length_s:
                continue
            busy = True
            for rail, value in zip(self._rails, values, strict=True):
                low = self._low[rail, way]
                self._shares[rail, way].append(value / usual)
                if value >= (1 - IMBALANCE) * usual:
                    low.run = 0
                else:
                    low.windows += 1
                    low.run += 1
                    low.moved += value
                    low.usual += usual
        self.busy += busy
        self._moved = [[0, 0] for _ in self._gbps]
        self._length_s = 0.0

    @staticmethod
    def _usual(values: Sequence[int]) -> float:
        """Return what the usual rail moved; of two, what the other one did."""
        if len(values) < 2:
            return 0.0
        return max(values) if len(values) == 2 else statistics.median(values)

    def share(self, rail: int) -> float | None:
        """Return what a rail did of the usual one in the last busy windows, the worse way.

        None for one that collectives do not use.
        """
        ways = (self._shares[rail, way] for way in (0, 1) if rail in self._rails)
        return min(map(statistics.fmean, ways), default=None)

    def low(self) -> dict[int, tuple[str, LowRail]]:
        """Return the rails that carried too little for long, with the direction that is worse.

        One that does so now is among them, however long the watch was: whether it is a phase of a
        job is only known later.
        """
        found: dict[int, tuple[str, LowRail]] = {}
        for (rail, way), low in self._low.items():
            is_often = low.windows >= max(LEAST_WINDOWS, LOW_WINDOWS * self.busy)
            if not is_often and low.run < LEAST_WINDOWS:
                continue
            if rail not in found or low.share < found[rail][1].share:
                found[rail] = (("sent", "received")[way], low)
        return found
