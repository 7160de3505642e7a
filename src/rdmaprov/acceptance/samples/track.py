"""What a rail sent and received over time, and spans of time in which it did something."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rdmaprov.acceptance.samples.packed import NodeSamples, SampleTable
from rdmaprov.boundary import OddAnswer

# The best source first, as in acceptance/counters.py: words of 4 bytes (InfiniBand Architecture
# 1.4, 16.1.3.5), or bytes.
_SOURCES = (
    ("counters.port_{}_data", ("xmit", "rcv"), 4),
    ("ethtool.{}_bytes_phy", ("tx", "rx"), 1),
    ("statistics.{}_bytes", ("tx", "rx"), 1),
)
_MOST_GB_S = 10_000  # 80 Tb/s: no port comes near, so a node that says so errs
# Below this part of what a rail usually sends it does not send: the rest is keep-alives and ARP.
IDLE_SHARE = 0.05


@dataclass(frozen=True)
class Span:
    """A part of the time, in seconds since the sampler of its node began."""

    from_s: float
    to_s: float

    @property
    def seconds(self) -> float:
        """Return how long it is."""
        return self.to_s - self.from_s


@dataclass(frozen=True)
class RailTrack:
    """The rates of one rail.

    Args:
        rail: its number.
        ends_s: when each row ends.
        widths_s: how long each row is.
        sent: GB/s in each row.
        received: GB/s in each row.

    """

    rail: int
    ends_s: list[float]
    widths_s: list[float]
    sent: list[float]
    received: list[float]

    @property
    def usual(self) -> float:
        """Return what it sends while it is busy, in GB/s: the median of what is not near zero."""
        return usual(self.sent)


def usual(rates: Sequence[float]) -> float:
    """Return the median of the rates above a tenth of the highest, 0 if there is none."""
    least = max(rates, default=0.0) / 10
    busy = sorted(rate for rate in rates if rate > least)
    return busy[len(busy) // 2] if busy else 0.0


def rail_track(node: NodeSamples, rail: int) -> RailTrack | None:
    """Return a rail's rates, None if it has no counter of bytes.

    Raises:
        OddAnswer: a rate is beyond what any port can do.

    """
    found = None
    for name, ways, unit in _SOURCES:
        for table in (node.fast, node.slow):
            columns = [table.column(rail, name.format(way)) for way in ways]
            sent, received = columns
            if sent is None or received is None:
                continue
            if any(sent) or found is None:
                found = table, sent, received, unit
            if any(sent):
                return _track(rail, *found)
    return _track(rail, *found) if found else None


def _track(
    rail: int, table: SampleTable, sent: Iterable[int], received: Iterable[int], unit: int
) -> RailTrack:
    widths = table.widths_s
    rates = [
        [count * unit / width / 1e9 for count, width in zip(column, widths, strict=True)]
        for column in (sent, received)
    ]
    if any(max(each, default=0) > _MOST_GB_S for each in rates):
        raise OddAnswer(f"its rail {rail} counts more than {_MOST_GB_S} GB/s")
    return RailTrack(rail, table.ends_s, widths, *rates)


def spans(ends_s: Sequence[float], hit: Sequence[bool], least_s: float) -> Iterator[Span]:
    """Yield the longest parts of the time in which rows are hit, from a length on."""
    begin, last = None, 0.0
    for end, is_hit in zip(ends_s, hit, strict=True):
        if is_hit and begin is None:
            begin = last
        elif not is_hit and begin is not None:
            if last - begin >= least_s - 1e-9:
                yield Span(begin, last)
            begin = None
        last = end
    if begin is not None and last - begin >= least_s - 1e-9:
        yield Span(begin, last)
