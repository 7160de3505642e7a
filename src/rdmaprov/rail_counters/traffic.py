"""What the counters of rails show of an all-reduce, read before and after it."""

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rdmaprov.boundary import Document
from rdmaprov.finding.finding import Finding, apply_remedy
from rdmaprov.inventory import Node
from rdmaprov.node.counter_names import CONGESTED, judged

CONGESTION = frozenset(judged(CONGESTED))
# Sent bytes, the best source first: words of 4 bytes (InfiniBand Architecture 1.4, 16.1.3.5).
_SENT = (("port.port_xmit_data", 4), ("ethtool.tx_bytes_phy", 1), ("netdev.tx_bytes", 1))
# Of two nodes, either may be the usual one.
_FEW_NODES = 2
MIN_SHARE = 0.7  # of the mean of a node's rails
MANAGEMENT_SHARE = 0.05
USED_SHARE = 0.05  # of what is due: below, rails were not used
_SLACK_BYTES = 64 << 20
PRIORITY_SHARE = 0.95
_READ_LOGS = (
    "See which transport NCCL used, on the controller: "
    "rdmaprov explain nccl-log runs/RUN/logs/*.nccl.*"
)


@dataclass(frozen=True)
class RailTraffic:
    """What one rail counted during a run."""

    node: str
    rail: int
    delta: Mapping[str, int]
    # that its line carried meanwhile at its rate, idle symbols too; 0 if not known
    bits: float = 0.0

    @property
    def sent_bytes(self) -> int | None:
        """Return the bytes that it sent, None if nothing counts them."""
        for name, unit in _SENT:
            if self.delta.get(name):
                return self.delta[name] * unit
        return 0 if any(name in self.delta for name, _ in _SENT) else None


def rail_traffic(node: Node, before: Document, after: Document) -> list[RailTraffic]:
    """Return what each rail of a node counted; a counter that fell was reset, and is left out."""
    found = []
    seconds = max(0.0, float(after["time"]) - float(before["time"]))
    # Those of storage come last, and carry nothing of this.
    for rail, old, new in zip(node.compute_rails, before["rails"], after["rails"], strict=False):
        pairs = ((n, new["counters"].get(n, -1) - c) for n, c in old["counters"].items())
        delta = {name: count for name, count in pairs if count >= 0}
        gbps = rail.link_gbps or int(node.get("fabric_link_gbps") or 0)
        found.append(RailTraffic(node.name, rail.index, delta, 1e9 * gbps * seconds))
    return found


def fleet_traffic(
    nodes: Sequence[Node], before: Mapping[str, Document], after: Mapping[str, Document]
) -> dict[str, list[RailTraffic]]:
    """Return what the rails of each node counted that was read twice."""
    return {
        node.name: rail_traffic(node, before[node.name], after[node.name])
        for node in nodes
        if node.name in before and node.name in after
    }


def overflows(node: str, before: Document, after: Document) -> Iterator[Finding]:
    """Yield the neighbor tables that were full during a run: then peers lose each other."""
    old = before.get("overflows", {})
    for table, count in after.get("overflows", {}).items():
        if table in old and count > old[table]:
            what = (
                f"its neighbor table was full {count - old[table]} times (/proc/net/stat/{table})"
            )
            remedy = "Set fabric_neighbor_entries to twice the nodes times rails of a subnet, apply"
            values = {"count": count - old[table]}
            yield Finding("node.neighbors", what, remedy, node, part=table, values=values)


def balance(rails: Sequence[RailTraffic], due_bytes: int) -> Iterator[Finding]:
    """Yield rails that sent much less than the others of their node.

    A node whose rails sent nearly nothing used none of them: `volume` names it, and no rail is
    the odd one of what broadcasts and neighbours leave in the counters.
    """
    by_node: dict[str, list[RailTraffic]] = {}
    for each in rails:
        by_node.setdefault(each.node, []).append(each)
    low: list[tuple[RailTraffic, Finding]] = []
    for node, own in by_node.items():
        sent = [each.sent_bytes for each in own]
        known = [count for count in sent if count is not None]
        if len(known) < len(own):
            what = "bytes that its rails sent: they have no counter for it"
            remedy = f"On {node}, check: rdma -j statistic; ethtool -S"
            yield Finding("traffic.share", what, remedy, node, proven=False)
        elif len(known) > 1 and sum(known) >= USED_SHARE * due_bytes:
            mean = statistics.fmean(known)
            pairs = zip(own, known, strict=True)
            low += [(rail, _low(rail, n, mean)) for rail, n in pairs if n < MIN_SHARE * mean]
    yield from _without_followers(low, len(by_node))


def _low(rail: RailTraffic, count: int, mean: float) -> Finding:
    what = (
        f"sent {count / 1e9:.1f} GB, {100 * count / mean:.0f} % of the mean of its node's "
        f"rails, expected at least {100 * MIN_SHARE:.0f} %"
    )
    remedy = f"On {rail.node}, check NCCL_IB_HCA and the rail's PCIe link (lspci -vv)"
    values = {"bytes": count, "mean_bytes": mean}
    return Finding("traffic.share", what, remedy, rail.node, rail.rail, values=values)


def _without_followers(low: Sequence[tuple[RailTraffic, Finding]], nodes: int) -> Iterator[Finding]:
    """Yield the rails that sent little; one of most nodes is the fleet's, and accuses no node.

    All ranks use as many channels as the one with the fewest (NCCL, src/init.cc,
    initTransportsRank), so one node without a rail leaves a rail of each other node idle.
    """
    count = Counter(rail.rail for rail, _ in low)
    shared = {rail for rail, times in count.items() if 2 * times > nodes > _FEW_NODES}
    yield from (found for rail, found in low if rail.rail not in shared)
    for rail in sorted(shared):
        what = f"{count[rail]} of {nodes} nodes sent little on it: NCCL has no channel for it"
        remedy = "Check NCCL_IB_HCA, and for a node with fewer rails: all others follow it"
        yield Finding("nccl.channels", what, remedy, rail=rail, level="fleet")


def volume(rails: Sequence[RailTraffic], due_bytes: int) -> Iterator[Finding]:
    """Yield nodes whose rails together sent much less than the algorithm must move."""
    by_node: dict[str, int] = {}
    for each in rails:
        by_node[each.node] = by_node.get(each.node, 0) + (each.sent_bytes or 0)
    for node, count in by_node.items():
        # A tree sends half as much from its leaves as a ring does.
        if count < due_bytes / 2 * MIN_SHARE:
            what = f"its rails sent {count / 1e9:.1f} GB, a ring sends {due_bytes / 1e9:.1f} GB"
            values = {"bytes": count, "due_bytes": due_bytes}
            yield Finding("traffic.volume", what, _READ_LOGS, node, values=values)


def priorities(node: Node, rails: Sequence[RailTraffic]) -> Iterator[Finding]:
    """Yield rails of RoCE that sent data with another priority than the declared one."""
    wanted = int(node.get("fabric_lossless_priority"))
    for each in rails:
        sent = {p: each.delta.get(f"ethtool.tx_prio{p}_bytes") for p in range(8)}
        known = {p: count for p, count in sent.items() if count is not None}
        total = sum(known.values())
        if not known:
            what = "the priority of its traffic: the driver has no tx_prioN_bytes (ethtool -S)"
            remedy = f"On {each.node}, check the driver: ethtool -i"
            yield Finding("traffic.priority", what, remedy, each.node, each.rail, proven=False)
        elif total and known.get(wanted, 0) < PRIORITY_SHARE * total:
            most = max(known, key=lambda p: known[p])
            share = 100 * known.get(wanted, 0) / total
            what = (
                f"{share:.0f} % of the bytes had priority {wanted} (fabric_lossless_priority), "
                f"expected at least {100 * PRIORITY_SHARE:.0f} %; most had {most} (ethtool -S)"
            )
            remedy = apply_remedy("roce_qos", each.node) + ", and check NCCL_IB_TC"
            values = {"percent": share, "least_percent": 100 * PRIORITY_SHARE}
            yield Finding("traffic.priority", what, remedy, each.node, each.rail, values=values)


def management(node: Node, before: Document, after: Document, due_bytes: int) -> Iterator[Finding]:
    """Yield network devices beside the rails that carried a part of the data."""
    for netdev, old in before["others"].items():
        count = after["others"].get(netdev, old) - old
        if count > MANAGEMENT_SHARE * due_bytes + _SLACK_BYTES:
            what = f"{netdev}, which is not a rail, sent {count / 1e9:.1f} GB during the run"
            values = {"bytes": count}
            yield Finding(
                "traffic.elsewhere", what, _READ_LOGS, node.name, part=netdev, values=values
            )


def congestion(rails: Sequence[RailTraffic]) -> dict[str, dict[str, int]]:
    """Return pause frames, congestion notifications and packets out of order, by rail."""
    found: dict[str, dict[str, int]] = {}
    for each in rails:
        counted = {
            name: count
            for name, count in each.delta.items()
            if count and (name in CONGESTION or (name.endswith("_pause") and "prio" in name))
        }
        if counted:
            found[f"{each.node} rail {each.rail}"] = counted
    return found
