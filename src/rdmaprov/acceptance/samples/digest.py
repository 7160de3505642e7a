"""The samples of a node, reduced to what is kept of it: a fleet's are too many to keep."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from rdmaprov.acceptance.samples.events import RailEvent, pause_share, rail_events
from rdmaprov.acceptance.samples.packed import NodeSamples, SampleTable, parse_samples
from rdmaprov.acceptance.samples.track import RailTrack, rail_track

MOST_BINS = 1024
# What congestion control and RDMA's repair count, in the words of a reader.
MARKS = {
    "cnps_sent": ("hw_counters.np_cnp_sent",),
    "cnps_handled": ("hw_counters.rp_cnp_handled",),
    "ecn_marks": ("hw_counters.np_ecn_marked_roce_packets",),
    "out_of_sequence": ("hw_counters.out_of_sequence", "hw_counters.out_of_seq_request"),
    "lost_packets": ("hw_counters.packet_seq_err", "hw_counters.rcvd_seq_err"),
    "ack_timeouts": ("hw_counters.local_ack_timeout_err",),
    "retransmissions": ("hw_counters.roce_adp_retrans", "hw_counters.completer_retry_err"),
    "wait_ticks": ("counters.port_xmit_wait",),
}


@dataclass(frozen=True)
class RailDigest:
    """One rail over time.

    Args:
        rail: its number.
        sent: GB/s by bin of its node; NaN where nothing was read. Empty without a counter.
        mean: GB/s, least and most while its node was busy.
        counts: what grew, by the names of MARKS.
        paused: the longest part of a second that its switch paused it, and that it paused its
            switch; None without such counters.

    """

    rail: int
    sent: array[float]
    mean: float
    least: float
    most: float
    counts: dict[str, int]
    paused: tuple[float, float] | None


@dataclass(frozen=True)
class NodeDigest:
    """One node over time.

    Args:
        node: its name.
        began_s: when its first bin begins, by its own clock.
        step_s: how long a bin is, 0.1 s times a power of two; bins begin at multiples of it.
        samples_began_s: when its sampler began, by its own clock.
        lasted_s: how long it sampled.
        clock_step_s: how far its clock was set meanwhile.
        longest_s: the longest that reading took once.
        cpu_share: of one core, that sampling cost.
        rails: in their order.
        events: what happened on them.

    """

    node: str
    began_s: float
    step_s: float
    samples_began_s: float
    lasted_s: float
    clock_step_s: float
    longest_s: float
    cpu_share: float
    rails: tuple[RailDigest, ...]
    events: tuple[RailEvent, ...]


def digest_samples(name: str, data: bytes, rails: int, together: bool) -> NodeDigest:
    """Return what is kept of a node's samples.

    Args:
        name: the node's.
        data: what its sampler wrote.
        rails: how many rails it was asked about.
        together: whether the ranks used all rails at the same time.

    Raises:
        OddAnswer: it is not what a sampler writes.

    """
    node = parse_samples(data, rails)
    found = [rail_track(node, rail) for rail in range(rails)]
    tracks = [each for each in found if each is not None]
    step = bin_step(node.fast.every_s, node.lasted_s)
    first = math.floor(node.began / step)
    bins = math.floor((node.began + node.lasted_s) / step) - first + 1
    offset = node.began - first * step
    digests = [
        _digest_rail(node, rail, track, (offset, step, bins)) for rail, track in enumerate(found)
    ]
    return NodeDigest(
        name, first * step, step, node.began, node.lasted_s, node.clock_step_s, node.longest_s,
        node.cpu_share, tuple(digests), tuple(rail_events(node, tracks, rails, together)),
    )  # fmt: skip


def bin_step(every_s: float, lasted_s: float) -> float:
    """Return how long bins are such that they are not too many: 0.1 s times a power of two."""
    step = 0.1
    while step < every_s * 0.99 or lasted_s / step > MOST_BINS - 2:
        step *= 2
    return step


def _digest_rail(
    node: NodeSamples, rail: int, track: RailTrack | None, grid: tuple[float, float, int]
) -> RailDigest:
    counts = {
        word: sum(node.fast.total(rail, name) for name in names) for word, names in MARKS.items()
    }
    sent = into_bins(track, *grid) if track else array("d")
    least = track.usual / 10 if track else 0.0
    busy = [rate for rate in sent if rate > least] or [0.0]
    return RailDigest(
        rail, sent, sum(busy) / len(busy), min(busy), max(busy), counts, _paused(node.slow, rail)
    )


def _paused(table: SampleTable, rail: int) -> tuple[float, float] | None:
    """Return the highest shares of a second, received and sent; None if nothing counts them."""
    names = [name for own, name in (*table.grown, *table.still) if own == rail]
    if not any(name.endswith("_pause_duration") for name in names):
        return None
    received, sent = (max(pause_share(table, rail, way), default=0.0) for way in ("rx", "tx"))
    return received, sent


def into_bins(track: RailTrack, offset: float, step: float, bins: int) -> array[float]:
    """Return what was sent by bins of equal length, in GB/s; what lies between reads is shared out.

    Args:
        track: the rates, from time 0 on.
        offset: where time 0 is in the first bin, in seconds.
        step: how long a bin is.
        bins: how many there are.

    """
    found = array("d", [math.nan]) * bins
    ends = track.ends_s
    sums = list(accumulate((r * w for r, w in zip(track.sent, track.widths_s, strict=True)),
                           initial=0.0))  # fmt: skip
    times = [0.0, *ends]
    row, before = 0, 0.0
    for place in range(bins):
        edge = (place + 1) * step - offset
        while row < len(ends) and times[row + 1] < edge:
            row += 1
        if row == len(ends):
            break
        part = (edge - times[row]) / (times[row + 1] - times[row])
        now = sums[row] + part * (sums[row + 1] - sums[row])
        if place:  # the first bin is not whole
            found[place] = max(0.0, now - before) / step
        before = now
    return found


def busy_mask(rails: Sequence[RailDigest]) -> int:
    """Return a number whose bits are the bins in which a node sends."""
    own = [each.sent for each in rails if len(each.sent)]
    rates = [sum(0.0 if math.isnan(v) else v for v in row) for row in zip(*own, strict=True)]
    least = max(rates, default=0.0) / 10
    return sum(1 << place for place, rate in enumerate(rates) if rate > least)
