"""Rails that carry less than the others of their node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from rdmaprov.finding.finding import Finding
from rdmaprov.watch.balance_windows import LowRail
from rdmaprov.watch.fleet import Place, WatchedFleet
from rdmaprov.watch.thresholds import IMBALANCE, WINDOW_S
from rdmaprov.words import duration

_LOCAL = "Check NCCL_IB_HCA, its link and its PCIe link: rdmaprov validate SITE --limit "
_TWO = "Compare both: link and PCIe rates, NCCL_IB_HCA"
_SHARED = "Check NCCL_IB_HCA, and this rail's switches: what they have in common"
_FEW_NODES = 2


def imbalances(fleet: WatchedFleet, explained: Collection[Place]) -> Iterator[Finding]:
    """Yield the rails that carry less than 80 % of what the usual one of their node does.

    Args:
        explained: rails with another verdict, which a low rate follows from.
    """
    low: dict[Place, tuple[str, LowRail]] = {}
    busy = 0
    planes = {rail for _, rail in explained}
    for name, node in fleet.nodes.items():
        busy += node.balance.busy > 0
        for rail, found in node.balance.low().items():
            # A collective ends with its slowest rail, and the others of its plane wait for that.
            if rail not in planes:
                low[name, rail] = found
    count = Counter(rail for _, rail in low)
    shared = {rail for rail, times in count.items() if 2 * times > busy > _FEW_NODES}
    for place, found in low.items():
        if place[1] not in shared:
            yield _own(fleet, place, found)
    for rail in sorted(shared):
        places = [place for place in low if place[1] == rail]
        way, worst = min((low[place] for place in places), key=lambda each: each[1].share)
        what = f"{way} down to {worst.share:.0%} of what the other rails did, on {len(places)} of "
        nodes = tuple(node for node, _ in places)
        what += f"{busy} busy nodes, expected at least {1 - IMBALANCE:.0%}"
        values = {"share": worst.share, "nodes": len(places), "of_nodes": busy}
        yield fleet.finding("traffic.share", what, _SHARED, rail=rail, nodes=nodes, values=values)


def _own(fleet: WatchedFleet, place: Place, found: tuple[str, LowRail]) -> Finding:
    way, low = found
    seconds = duration(low.windows * WINDOW_S)
    node = fleet.nodes[place[0]].node
    is_pair = len(node.compute_rails) == 2
    beside = "other rail" if is_pair else "usual rail of its node"
    what = (
        f"{way} {low.share:.0%} of what the {beside} did for {seconds}, expected at least "
        f"{1 - IMBALANCE:.0%}"
    )
    if is_pair:
        what += "; of two rails, nothing tells which is at fault"
    remedy = _TWO if is_pair else _LOCAL + place[0]
    values = {"share": low.share, "seen_s": low.windows * WINDOW_S}
    return fleet.finding("traffic.share", what, remedy, place, values=values)
