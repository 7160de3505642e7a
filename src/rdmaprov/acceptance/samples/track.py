"""What a rail sent over time, and spans of time in which something was so."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rdmaprov.acceptance.samples.packed import NodeSamples, SampleTable
from rdmaprov.boundary import OddAnswer

# The best source first, as in rail_counters/traffic.py: words of 4 bytes (InfiniBand Architecture
# 1.4, 16.1.3.5), or bytes.
_SENT = (("port.port_xmit_data", 4), ("ethtool.tx_bytes_phy", 1), ("netdev.tx_bytes", 1))
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
    """What one rail sent."""

    rail: int
    every_s: float  # seconds from one row to the next, as intended
    ends_s: list[float]
    moved: list[float]  # GB in each row
    sent: list[float]  # GB/s in each row

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
    first = None
    for name, unit in _SENT:
        for table in (node.fast, node.slow):
            counts = table.column(rail, name)
            if counts is not None and any(counts):
                return _track(rail, table, counts, unit)
            if counts is not None:
                first = first or (table, counts, unit)
    return _track(rail, *first) if first else None


def _track(rail: int, table: SampleTable, counts: array[int], unit: int) -> RailTrack:
    scale = unit / 1e9
    moved = [count * scale for count in counts]
    rates = [each / width for each, width in zip(moved, table.widths_s, strict=True)]
    if max(rates, default=0) > _MOST_GB_S:
        raise OddAnswer(f"its rail {rail} counts more than {_MOST_GB_S} GB/s")
    return RailTrack(rail, table.every_s, table.ends_s, moved, rates)


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
