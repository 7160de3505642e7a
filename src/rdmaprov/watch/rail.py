"""One rail while it is watched: its sums, and for how long it was in which state."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from rdmaprov.acceptance.samples.events import PAUSE_S, PAUSE_SHARE
from rdmaprov.watch.thresholds import (
    DOUBLED,
    HELD_S,
    HELD_WITHIN_S,
    LEAST_MARKS_PER_S,
    MARKED_SHARE,
    PACKET_BYTES,
    PAUSED_SHARE,
    SPELLS_S,
)


class Column(IntEnum):
    """What a counter says of a rail, in one number per answer."""

    SENT = 0  # bytes
    RECEIVED = 1
    MARKED = 2  # packets
    CNPS_SENT = 3
    CNPS_HANDLED = 4
    PAUSED = 5  # microseconds, of the priority that was paused most
    PAUSING = 6
    STORMS = 7
    STALLS = 8
    DOWN = 9
    CHANGES = 10


_SLACK_S = 0.5  # answers come a little early or late
# InfiniBand counts words of 4 bytes (InfiniBand Architecture 1.4, 16.1.3.5).
WORD_BYTES = 4
NO_COUNTS = (0,) * len(Column)


class RailState(StrEnum):
    """What a rail is in for a second."""

    CONGESTED = "congested"
    SLOWED = "slowed"
    PAUSED = "paused"
    PAUSING = "pausing"
    DOWN = "down"


_HELD = (RailState.SLOWED, RailState.PAUSED)


@dataclass
class RailRow:
    """The last answer of a rail: its counts, and over how many seconds."""

    counts: Sequence[int] = NO_COUNTS
    seconds: float = 1.0

    def rate(self, column: Column) -> float:
        """Return how much was counted per second."""
        return self.counts[column] / self.seconds

    def share(self, column: Column) -> float:
        """Return the part of the time that a pause took, from its microseconds."""
        return min(1.0, self.counts[column] / (1e6 * self.seconds))

    @property
    def marked_share(self) -> float:
        """Return the part of the packets that were marked, at least.

        A notification stands for one marked packet or more, where marks are not counted.
        """
        packets = self.counts[Column.RECEIVED] / PACKET_BYTES
        marked = max(self.counts[Column.MARKED], self.counts[Column.CNPS_SENT])
        return min(1.0, marked / packets) if packets else 0.0

    def states(self) -> list[RailState]:
        """Return what the rail was in."""
        _, _, marked, cnps, handled, paused, pausing, _, _, down, _ = self.counts
        found, marks, pause_us = [], LEAST_MARKS_PER_S * self.seconds, 1e6 * self.seconds
        if max(marked, cnps) >= marks and self.marked_share >= MARKED_SHARE:
            found.append(RailState.CONGESTED)
        if handled >= marks:
            found.append(RailState.SLOWED)
        elif paused >= PAUSED_SHARE * pause_us:
            found.append(RailState.PAUSED)
        if pausing >= PAUSED_SHARE * pause_us:
            found.append(RailState.PAUSING)
        if down:
            found.append(RailState.DOWN)
        return found


@dataclass
class RailAccount:
    """A rail since the watch began."""

    # what was counted, by Column
    sums: list[int] = field(default_factory=lambda: [0] * len(Column))
    seen_s: float = 0.0
    state_s: dict[RailState, float] = field(default_factory=dict)  # seconds in each state
    # what was counted in the seconds of a state, by Column, and their length
    state_sums: dict[RailState, list[int]] = field(default_factory=dict)
    # the longest time without a break in which it paused its switch nearly always
    storm_s: float = 0.0
    downs: int = 0  # how often it was seen to lose its link; one that never had it counts once
    row: RailRow = field(default_factory=RailRow)  # its last answer
    _storm_now_s: float = 0.0
    # the last seconds in each state: when each answer came, and how long it was
    _spells: dict[RailState, deque[tuple[float, float]]] = field(default_factory=dict)
    # of states that were no bursts: how many times as long as SPELLS_S says
    _lasting: dict[RailState, int] = field(default_factory=dict)
    _was_down: bool = False

    def add(self, row: RailRow) -> None:
        """Take in one answer."""
        self.row = row
        self.seen_s += row.seconds
        counts = row.counts
        is_storm = row.share(Column.PAUSING) >= PAUSE_SHARE
        self._storm_now_s = self._storm_now_s + row.seconds if is_storm else 0.0
        self.storm_s = max(self.storm_s, self._storm_now_s)
        is_down = counts[Column.DOWN] > 0
        self.downs += is_down and not self._was_down
        self._was_down = is_down
        if not any(counts):
            return
        self.sums = [a + b for a, b in zip(self.sums, counts, strict=True)]
        for state in row.states():
            self.state_s[state] = self.state_s.get(state, 0.0) + row.seconds
            sums = self.state_sums.get(state, NO_COUNTS)
            self.state_sums[state] = [a + b for a, b in zip(sums, counts, strict=True)]
            self._lengthen(state, row.seconds)

    def _lengthen(self, state: RailState, seconds: float) -> None:
        """Note that the last seconds were in a state, and whether that is no burst any more."""
        spell = self._spells.setdefault(state, deque())
        spell.append((self.seen_s, seconds))
        while spell[0][0] < self.seen_s - DOUBLED * SPELLS_S[-1][1]:
            spell.popleft()
        times = self._lasting.get(state, 0) + 1
        if times <= DOUBLED and any(
            self.last_seconds(state, times * within_s) >= times * least_s - _SLACK_S
            for least_s, within_s in SPELLS_S
        ):
            self._lasting[state] = times

    def last_seconds(self, state: RailState, within_s: float) -> float:
        """Return how many of the last seconds it was in a state."""
        since = self.seen_s - within_s + _SLACK_S
        return sum(seconds for at, seconds in self._spells.get(state, ()) if at > since)

    @property
    def is_held(self) -> bool:
        """Return whether pauses or notifications held it back of late, if not for a verdict yet."""
        held = (self.last_seconds(each, HELD_WITHIN_S) for each in _HELD)
        return max(held) >= HELD_S - _SLACK_S

    def seconds(self, state: RailState) -> float:
        """Return how long it was in a state."""
        return self.state_s.get(state, 0.0)

    def lasts(self, state: RailState, times: int = 1) -> bool:
        """Return whether it was in a state for so long that it was no burst, or twice as long."""
        return self._lasting.get(state, 0) >= times

    def while_in(self, state: RailState) -> RailRow:
        """Return what it counted in the seconds of a state, as one row."""
        return RailRow(self.state_sums.get(state, NO_COUNTS), max(self.seconds(state), 1e-9))

    @property
    def is_storm(self) -> bool:
        """Return whether it paused its switch without a break, or its driver warned of that."""
        return self.storm_s >= PAUSE_S or self.sums[Column.STORMS] > 0
