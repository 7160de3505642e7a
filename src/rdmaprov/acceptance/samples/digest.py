"""The samples of a node, reduced to what is kept of it: a fleet's are too many to keep."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from rdmaprov.acceptance.samples.events import RailEvent, pause_share, rail_events
from rdmaprov.acceptance.samples.packed import NodeSamples, SampleTable, parse_samples
from rdmaprov.acceptance.samples.track import RailTrack, rail_track

# What congestion control and RDMA's repair count, in the words of a reader.
MARKS = {
    "cnps_sent": ("hw.np_cnp_sent",),
    "cnps_handled": ("hw.rp_cnp_handled",),
    "ecn_marks": ("hw.np_ecn_marked_roce_packets",),
    "out_of_sequence": ("hw.out_of_sequence", "hw.out_of_seq_request"),
    "lost_packets": ("hw.packet_seq_err", "hw.rcvd_seq_err"),
    "ack_timeouts": ("hw.local_ack_timeout_err",),
    "retransmissions": ("hw.roce_adp_retrans", "hw.completer_retry_err"),
    "wait_ticks": ("port.port_xmit_wait",),
}


@dataclass(frozen=True)
class RailDigest:
    """One rail over time."""

    rail: int
    # GB/s by bin of its node; NaN where nothing was read. Empty without a counter.
    sent: array[float]
    mean: float  # GB/s, least and most while its node was busy
    least: float
    most: float
    counts: dict[str, int]  # what grew, by the names of MARKS
    # the longest part of a second that its switch paused it, and that it paused its switch; None
    # without such counters
    paused: tuple[float, float] | None


@dataclass(frozen=True)
class NodeDigest:
    """One node over time."""

    node: str
    began_s: float  # when its first bin begins, by its own clock
    step_s: float  # how long a bin is, 0.1 s times a power of two; bins begin at multiples of it
    samples_began_s: float  # when its sampler began, by its own clock
    lasted_s: float  # how long it sampled
    clock_step_s: float  # how far its clock was set meanwhile
    longest_s: float  # the longest that reading took once
    cpu_share: float  # of one core, that sampling cost
    rails: tuple[RailDigest, ...]
    events: tuple[RailEvent, ...]


def digest_samples(
    name: str, data: bytes, rails: int, together: bool, most_bins: int = 1024
) -> NodeDigest:
    """Return what is kept of a node's samples.

    Args:
        together: whether the ranks used all rails at the same time.

    Raises:
        OddAnswer: it is not what a sampler writes.
    """
    node = parse_samples(data, rails)
    found = [rail_track(node, rail) for rail in range(rails)]
    tracks = [each for each in found if each is not None]
    step = bin_step(node.fast.every_s, node.lasted_s, most_bins)
    first = math.floor(node.began / step)
    bins = math.floor((node.began + node.lasted_s) / step) - first + 1
    edges = {
        table.every_s: bin_edges(table.ends_s, node.began - first * step, step, bins)
        for table in (node.slow, node.fast)
    }
    digests = []
    for rail, track in enumerate(found):
        own = into_bins(track, edges[track.every_s], step, bins) if track else array("d")
        digests.append(_digest_rail(node, rail, track, own))
    return NodeDigest(
        name,
        first * step,
        step,
        node.began,
        node.lasted_s,
        node.clock_step_s,
        node.longest_s,
        node.cpu_share,
        tuple(digests),
        tuple(rail_events(node, tracks, rails, together)),
    )


def bin_step(every_s: float, lasted_s: float, most_bins: int) -> float:
    """Return how long bins are such that they are not too many: 0.1 s times a power of two."""
    step = 0.1
    while step < every_s * 0.99 or lasted_s / step > most_bins - 2:
        step *= 2
    return step


def _digest_rail(
    node: NodeSamples, rail: int, track: RailTrack | None, sent: array[float]
) -> RailDigest:
    counts = {
        word: sum(node.fast.total(rail, name) for name in names) for word, names in MARKS.items()
    }
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


def bin_edges(
    ends_s: Sequence[float], offset: float, step: float, bins: int
) -> list[tuple[int, float]]:
    """Return in which row the end of each bin is, and which part of the row is before it.

    Args:
        ends_s: of the rows, the first of which begins at time 0.
        offset: where time 0 is in the first bin, in seconds.
        bins: how many there are; those that end after the last row are left out.
    """
    found, row, begin = [], 0, 0.0
    for place in range(bins):
        edge = (place + 1) * step - offset
        while row < len(ends_s) and ends_s[row] < edge:
            begin = ends_s[row]
            row += 1
        if row == len(ends_s):
            break
        found.append((row, (edge - begin) / (ends_s[row] - begin)))
    return found


def into_bins(
    track: RailTrack, edges: Sequence[tuple[int, float]], step: float, bins: int
) -> array[float]:
    """Return what was sent by bins, in GB/s; what lies between two reads is shared out."""
    sums = list(accumulate(track.moved, initial=0.0))
    at = [sums[row] + part * (sums[row + 1] - sums[row]) for row, part in edges]
    rates = [max(0.0, after - before) / step for before, after in pairwise(at)]
    # The first bin is not whole, and nor are those after the last row.
    return array("d", [math.nan, *rates, *[math.nan] * bins])[:bins]


def busy_mask(rails: Sequence[RailDigest]) -> int:
    """Return a number whose bits are the bins in which a node sends."""
    own = [each.sent for each in rails if len(each.sent)]
    # Bins without a rate are so of all rails.
    rates = [rate if rate >= 0 else 0.0 for rate in map(sum, zip(*own, strict=True))]
    least = max(rates, default=0.0) / 10
    bits = "".join("1" if rate > least else "0" for rate in reversed(rates))
    return int(bits or "0", 2)
