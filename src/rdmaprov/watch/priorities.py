"""RDMA that is sent with another priority than the one that PFC protects."""

from __future__ import annotations

from collections.abc import Iterator

from rdmaprov.acceptance.counters import PRIORITY_SHARE
from rdmaprov.acceptance.finding import apply_remedy
from rdmaprov.watch.fleet import WatchedFleet
from rdmaprov.watch.rail import WORD_BYTES
from rdmaprov.watch.thresholds import LEAST_RDMA_BYTES
from rdmaprov.watch.verdict import Verdict, VerdictKind

PRIORITIES = 8


def wrong_priorities(fleet: WatchedFleet) -> Iterator[Verdict]:
    """Yield the rails whose RDMA does not have the declared priority.

    Other traffic of a rail, such as TCP's, may have any. So the bytes of the priority are compared
    with those of RDMA alone, which InfiniBand's counters have (drivers/infiniband/hw/mlx5/mad.c).
    """
    for place, _ in fleet.rails():
        node, rail = fleet.nodes[place[0]], place[1]
        wanted = fleet.lossless(place)
        rdma = WORD_BYTES * node.total(rail, "counters.port_xmit_data")
        if wanted is None or rdma < LEAST_RDMA_BYTES:
            continue
        sent = [node.total(rail, f"ethtool.tx_prio{each}_bytes") for each in range(PRIORITIES)]
        if not any(sent) or sent[wanted] >= PRIORITY_SHARE * rdma:
            continue
        most = max(range(PRIORITIES), key=lambda each: sent[each])
        what = (
            f"{sent[wanted] / rdma:.0%} of its RDMA can have had priority {wanted} "
            f"(fabric_lossless_priority), expected at least {PRIORITY_SHARE:.0%}; most bytes had "
            f"{most} (ethtool -S: tx_prioN_bytes)"
        )
        remedy = apply_remedy("roce_qos", place[0]) + ", and check NCCL_IB_TC of the job"
        yield fleet.verdict(VerdictKind.PRIORITY, what, remedy, place)
