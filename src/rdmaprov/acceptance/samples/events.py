"""When a rail of a node lost its link, stopped, carried too little, or paused its switch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rdmaprov.acceptance.samples.packed import NodeSamples, SampleTable
from rdmaprov.acceptance.samples.track import IDLE_SHARE, RailTrack, Span, spans
from rdmaprov.rail_counters.traffic import MIN_SHARE

# Three reads at 100 ms, and more than the 100 ms at which switches may call a queue stuck
# (detection time of SONiC's PFC watchdog, sonic-swss orchagent/pfcwdorch.cpp). Our choice: NCCL
# itself waits for longer, as an RDMA connection retries for seconds before it fails.
STOP_S = 0.5
# Our choice: long against the pauses between messages, short against a run.
WEAK_S = 2.0
# A rail whose share is low nearly always carries too little in sum, as rail_counters/traffic.py
# says.
WEAK_MOST = 0.9
# A rail is compared with its neighbours while these send a quarter of what they usually do.
BUSY_SHARE = 0.25
# A queue that may not send at all is stuck. Ours is read each second, so two in a row.
PAUSE_SHARE = 0.9
PAUSE_S = 2.0
_LOST = (
    ("fast", "carrier_changes", 2),  # once down and once up again
    ("slow", "port.link_downed", 1),
    ("slow", "ethtool.link_down_events_phy", 1),
)


@dataclass(frozen=True)
class RailEvent:
    """Something that happened on a rail, as its own node's counters show it."""

    rail: int
    kind: str  # `link`, `stopped`, `weak` or `pausing`
    spans: tuple[Span, ...]  # when; empty if it was too short to be seen
    count: int  # how often at least
    share: float = 0.0  # what the kind is measured by, between 0 and 1

    @property
    def seconds(self) -> float:
        """Return how long it lasted in all."""
        return sum(span.seconds for span in self.spans)


def rail_events(
    node: NodeSamples, tracks: Sequence[RailTrack], rails: int, together: bool
) -> Iterator[RailEvent]:
    """Yield what happened on the rails of a node."""
    for rail in range(rails):
        yield from lost_links(node, rail)
        yield from pause_storms(node.slow, rail)
    if together:
        yield from weak_rails(tracks)


def lost_links(node: NodeSamples, rail: int) -> Iterator[RailEvent]:
    """Yield that a rail had no link for a while."""
    downs = node.fast.column(rail, "down") or ()
    found = tuple(spans(node.fast.ends_s, [count > 0 for count in downs], 0)) if any(downs) else ()
    tables = {"fast": node.fast, "slow": node.slow}
    counts = [tables[where].total(rail, name) // per for where, name, per in _LOST]
    count = max(len(found), *counts)
    if count:
        yield RailEvent(rail, "link", found, count)


def pause_storms(table: SampleTable, rail: int) -> Iterator[RailEvent]:
    """Yield that a rail told its switch not to send, for nearly all of some seconds.

    A NIC that cannot take what arrives does so without end, and stops all that shares its switch:
    Guo and others, RDMA over Commodity Ethernet at Scale, SIGCOMM 2016.
    """
    share = pause_share(table, rail, "tx")
    found = tuple(spans(table.ends_s, [each >= PAUSE_SHARE for each in share], PAUSE_S))
    warned = table.total(rail, "ethtool.tx_pause_storm_error_events")
    if found or warned:
        yield RailEvent(rail, "pausing", found, max(len(found), warned), max(share, default=0))


def pause_share(table: SampleTable, rail: int, way: str) -> list[float]:
    """Return the part of each row in which the priority that paused most was paused.

    mlx5 counts microseconds (counters.rst in the kernel's documentation): `rx` as its switch asked,
    `tx` as it asked its switch.
    """
    names = (
        f"ethtool.{way}_{which}_pause_duration"
        for which in (*map("prio{}".format, range(8)), "global")
    )
    columns = [each for name in names if (each := table.grown.get((rail, name))) is not None]
    rows = zip(*columns, strict=True) if columns else [(0,)] * len(table.ends_s)
    return [
        min(1.0, max(each) / (1e6 * width))
        for each, width in zip(rows, table.widths_s, strict=True)
    ]


def weak_rails(tracks: Sequence[RailTrack]) -> Iterator[RailEvent]:
    """Yield rails that stopped, or carried less than the others of their node, for a while."""
    same = [each for each in tracks if each.ends_s == tracks[0].ends_s]
    if len(same) < 3:  # of two, nothing tells which is right
        return
    middle = [sorted(row)[len(row) // 2] for row in zip(*(each.sent for each in same), strict=True)]
    highest = sorted(middle)[int(0.9 * (len(middle) - 1))] if middle else 0.0
    busy = [rate > BUSY_SHARE * highest > 0 for rate in middle]
    for each in same:
        yield from _weak(each, middle, busy)


def _weak(track: RailTrack, middle: Sequence[float], busy: Sequence[bool]) -> Iterator[RailEvent]:
    rows = list(zip(track.sent, middle, busy, strict=True))
    stopped = [hit and own < IDLE_SHARE * other for own, other, hit in rows]
    weak = [hit and own < MIN_SHARE * other for own, other, hit in rows]
    if not any(weak) or sum(weak) > WEAK_MOST * sum(busy):
        return
    found = tuple(spans(track.ends_s, stopped, STOP_S))
    if found:
        yield RailEvent(track.rail, "stopped", found, len(found), _share(track, middle, stopped))
        weak = [one and not other for one, other in zip(weak, stopped, strict=True)]
    found = tuple(spans(track.ends_s, weak, WEAK_S))
    if found:
        yield RailEvent(track.rail, "weak", found, len(found), _share(track, middle, weak))


def _share(track: RailTrack, middle: Sequence[float], hit: Sequence[bool]) -> float:
    """Return what it sent of what the others did, in some rows."""
    rows = list(zip(track.sent, middle, hit, strict=True))
    return sum(own for own, _, is_hit in rows if is_hit) / max(
        sum(other for _, other, is_hit in rows if is_hit), 1e-12
    )
