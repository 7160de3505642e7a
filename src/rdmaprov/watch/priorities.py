"""RDMA that is sent with another priority than the one that PFC protects."""

from __future__ import annotations

from collections.abc import Iterator

from rdmaprov.finding.finding import Finding, apply_remedy
from rdmaprov.rail_counters.traffic import PRIORITY_SHARE
from rdmaprov.watch.fleet import WatchedFleet
from rdmaprov.watch.priority_windows import PRIORITIES, sent_rdma


def wrong_priorities(fleet: WatchedFleet) -> Iterator[Finding]:
    """Yield the rails whose RDMA did not have the declared priority, all in all or for a while."""
    for place, _ in fleet.rails():
        node, rail = fleet.nodes[place[0]], place[1]
        wanted = fleet.lossless(place)
        if wanted is None:
            continue
        found = node.priorities.wrong.get(rail) or sent_rdma(node.totals, rail)
        if not found.is_wrong(wanted):
            continue
        sent = found.by_priority
        most = max(PRIORITIES, key=lambda each: sent[each])
        what = (
            f"{sent[wanted] / found.rdma:.0%} of its RDMA can have had priority {wanted} "
            f"(fabric_lossless_priority), expected at least {PRIORITY_SHARE:.0%}; most "
            f"{found.unit} had {most} (ethtool -S: tx_prioN_{found.unit})"
        )
        remedy = apply_remedy("roce_qos", place[0]) + ", and check NCCL_IB_TC of the job"
        values = {"priority": wanted, "of_rdma": sent[wanted] / found.rdma, "most_had": most}
        yield fleet.finding("traffic.priority", what, remedy, place, values=values)
