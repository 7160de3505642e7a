"""With which priorities the rails of a node send RDMA, window by window."""

from collections.abc import Mapping
from dataclasses import dataclass

from rdmaprov.rail_counters.traffic import PRIORITY_SHARE
from rdmaprov.watch.columns import Key
from rdmaprov.watch.rail import WORD_BYTES
from rdmaprov.watch.thresholds import LEAST_RDMA_BYTES, LEAST_RDMA_PACKETS, PRIORITY_WINDOW_S

PRIORITIES = range(8)
# What a rail counts of RDMA alone: InfiniBand's counters have its bytes (drivers/infiniband/hw/
# mlx5/mad.c), Soft-RoCE has its packets (sw/rxe/rxe_hw_counters.c).
RDMA_BYTES, RDMA_PACKETS = "port.port_xmit_data", "hw.sent_pkts"


@dataclass(frozen=True)
class SentRdma:
    """What a rail sent."""

    unit: str = "bytes"  # what is counted, bytes or packets
    rdma: int = 0
    by_priority: tuple[int, ...] = (0,) * len(PRIORITIES)  # how much of anything, by priority

    def since(self, before: "SentRdma") -> "SentRdma":
        """Return what came after another time."""
        pairs = zip(self.by_priority, before.by_priority, strict=True)
        return SentRdma(self.unit, self.rdma - before.rdma, tuple(a - b for a, b in pairs))

    def is_wrong(self, wanted: int) -> bool:
        """Return whether RDMA cannot have had a priority.

        Other traffic of a rail, such as TCP's, may have any. What was dropped before it was sent,
        as a queue of the kernel does with Soft-RoCE's, has none.
        """
        least = LEAST_RDMA_BYTES if self.unit == "bytes" else LEAST_RDMA_PACKETS
        known = min(self.rdma, sum(self.by_priority))
        return known >= least and self.by_priority[wanted] < PRIORITY_SHARE * known


def sent_rdma(totals: Mapping[Key, int], rail: int) -> SentRdma:
    """Return what a rail sent, from how much its counters grew."""
    unit, rdma = "bytes", WORD_BYTES * totals.get((rail, RDMA_BYTES), 0)
    if (rail, RDMA_BYTES) not in totals:
        unit, rdma = "packets", totals.get((rail, RDMA_PACKETS), 0)
    sent = (totals.get((rail, f"ethtool.tx_prio{each}_{unit}"), 0) for each in PRIORITIES)
    return SentRdma(unit, rdma, tuple(sent))


class PriorityWindows:
    """The rails of one node.

    Args:
        wanted: the priority of RDMA, None if there is none.

    Attributes:
        wrong: what a rail sent in the last two windows in a row in which it was wrong.
    """

    def __init__(self, wanted: int | None, rails: int) -> None:
        self.wrong: dict[int, SentRdma] = {}
        self._wanted = wanted
        self._windows = [(SentRdma(), SentRdma())] * rails  # where the last two began
        self._was_wrong = [False] * rails
        self._length_s = 0.0

    def add(self, totals: Mapping[Key, int], seconds: float) -> None:
        """Take in one answer of the node, which is in the totals already."""
        self._length_s += seconds
        if self._wanted is None or self._length_s < 0.95 * PRIORITY_WINDOW_S:
            return
        self._length_s = 0.0
        for rail, (first, second) in enumerate(self._windows):
            now = sent_rdma(totals, rail)
            is_wrong = now.since(second).is_wrong(self._wanted)
            if is_wrong and self._was_wrong[rail]:
                self.wrong[rail] = now.since(first)
            self._was_wrong[rail] = is_wrong
            self._windows[rail] = (second, now)
