"""What counters of rails say of an all-reduce, from before and after it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rdmaprov.acceptance.finding import Finding
from rdmaprov.acceptance.nodes import Document
from rdmaprov.inventory import Node

# Every one of these is data that was lost, spoilt or sent again. mlx5: "Understanding mlx5 Linux
# counters" of NVIDIA, and drivers/infiniband/hw/mlx5/counters.c; rxe: sw/rxe/rxe_hw_counters.c.
ERRORS = {
    "hw.out_of_sequence": "packets out of sequence",
    "hw.packet_seq_err": "packets that the peer missed",
    "hw.local_ack_timeout_err": "packets without an answer",
    "hw.implied_nak_seq_err": "packets that the peer asked for again",
    "hw.rnr_nak_retry_err": "tries given up: receiver not ready",
    "hw.roce_adp_retrans": "adaptive retransmissions",
    "hw.rx_icrc_encapsulated": "packets with a wrong checksum",
    "hw.rcvd_seq_err": "packets that the peer missed",
    "hw.out_of_seq_request": "packets out of sequence",
    "hw.retry_exceeded_err": "retries given up",
    "hw.completer_retry_err": "packets sent again",
    "port.port_xmit_discards": "packets discarded when sending",
    "port.port_rcv_errors": "packets received broken",
    "port.symbol_error": "symbol errors",
    "port.link_downed": "times the link went down",
    "port.link_error_recovery": "link recoveries",
    "port.local_link_integrity_errors": "link integrity errors",
    "netdev.rx_errors": "frames received broken",
    "netdev.tx_errors": "frames not sent",
    "netdev.rx_crc_errors": "frames with a wrong checksum",
    "ethtool.rx_discards_phy": "packets discarded: no buffer",
    "ethtool.tx_discards_phy": "packets discarded when sending",
    "ethtool.rx_symbol_err_phy": "symbol errors",
    "ethtool.rx_crc_errors_phy": "frames with a wrong checksum",
    "ethtool.link_down_events_phy": "times the link went down",
}
# What congestion control did: no fault, but worth to know.
CONGESTION = (
    "hw.np_cnp_sent", "hw.rp_cnp_handled", "hw.np_ecn_marked_roce_packets",
    "ethtool.rx_global_pause", "ethtool.tx_global_pause",
)  # fmt: skip
# Sent bytes, the best source first: words of 4 bytes (InfiniBand Architecture 1.4, 16.1.3.5).
_SENT = (("port.port_xmit_data", 4), ("ethtool.tx_bytes_phy", 1), ("netdev.tx_bytes", 1))
MIN_SHARE = 0.7  # of the mean of a node's rails
MANAGEMENT_SHARE = 0.05
_SLACK_BYTES = 64 << 20
PRIORITY_SHARE = 0.95


@dataclass(frozen=True)
class RailTraffic:
    """What one rail counted during a run.

    Args:
        node: the rail's node.
        rail: its number.
        delta: each counter's growth.

    """

    node: str
    rail: int
    delta: Mapping[str, int]

    @property
    def sent_bytes(self) -> int | None:
        """Return the bytes that it sent, None if nothing counts them."""
        for name, unit in _SENT:
            if self.delta.get(name):
                return self.delta[name] * unit
        return 0 if any(name in self.delta for name, _ in _SENT) else None


def rail_traffic(node: Node, before: Document, after: Document) -> list[RailTraffic]:
    """Return what each rail of a node counted; a counter that fell was reset, and says nothing."""
    found = []
    for rail, old, new in zip(node.rails, before["rails"], after["rails"], strict=True):
        pairs = ((n, new["counters"].get(n, -1) - c) for n, c in old["counters"].items())
        delta = {name: count for name, count in pairs if count >= 0}
        found.append(RailTraffic(node.name, rail.index, delta))
    return found


def errors(rails: Sequence[RailTraffic]) -> Iterator[Finding]:
    """Yield the counters of errors that grew."""
    for each in rails:
        for name, meaning in ERRORS.items():
            if count := each.delta.get(name, 0):
                what = f"{count} {meaning} during the run ({name}), wanted 0"
                yield Finding(what, "Look at the cable, PFC and ECN", each.node, each.rail)
        for name, count in each.delta.items():
            if count and name.startswith("ethtool.rx_prio") and "discard" in name:
                what = f"{count} packets discarded during the run ({name}), wanted 0"
                remedy = "Run: rdmaprov apply SITE --roles roce_qos"
                yield Finding(what, remedy, each.node, each.rail)


def balance(rails: Sequence[RailTraffic]) -> Iterator[Finding]:
    """Yield rails that sent much less than the others of their node."""
    by_node: dict[str, list[RailTraffic]] = {}
    for each in rails:
        by_node.setdefault(each.node, []).append(each)
    for node, own in by_node.items():
        sent = [each.sent_bytes for each in own]
        known = [count for count in sent if count is not None]
        if len(known) < len(own):
            what = "nothing counts what its rails send"
            yield Finding(what, "Look at: rdma -j statistic, ethtool -S", node, proven=False)
        elif len(known) > 1:
            mean = statistics.fmean(known)
            for each, count in zip(own, known, strict=True):
                if count < MIN_SHARE * mean:
                    share = 100 * count / mean
                    what = f"sent {count / 1e9:.1f} GB, {share:.0f} % of its node's mean"
                    remedy = "Look at NCCL_IB_HCA and at the rail's PCIe link"
                    yield Finding(what, remedy, node, each.rail)


def volume(rails: Sequence[RailTraffic], due_bytes: int) -> Iterator[Finding]:
    """Yield nodes whose rails together sent much less than the algorithm must move."""
    by_node: dict[str, int] = {}
    for each in rails:
        by_node[each.node] = by_node.get(each.node, 0) + (each.sent_bytes or 0)
    for node, count in by_node.items():
        # A tree sends half as much from its leaves as a ring does.
        if count < due_bytes / 2 * MIN_SHARE:
            what = f"its rails sent {count / 1e9:.1f} GB, and a ring sends {due_bytes / 1e9:.1f} GB"
            yield Finding(what, "The data went elsewhere: see NCCL's logs", node)


def priorities(node: Node, rails: Sequence[RailTraffic]) -> Iterator[Finding]:
    """Yield rails of RoCE whose data rode another priority than the declared one."""
    wanted = int(node.get("fabric_lossless_priority"))
    for each in rails:
        sent = {p: each.delta.get(f"ethtool.tx_prio{p}_bytes") for p in range(8)}
        known = {p: count for p, count in sent.items() if count is not None}
        total = sum(known.values())
        if not known:
            what = "nothing counts bytes by priority (ethtool -S, tx_prioN_bytes)"
            yield Finding(what, "Look at the driver", each.node, each.rail, proven=False)
        elif total and known.get(wanted, 0) < PRIORITY_SHARE * total:
            most = max(known, key=lambda p: known[p])
            share = 100 * known.get(wanted, 0) / total
            what = (
                f"{share:.0f} % of the bytes rode priority {wanted} (fabric_lossless_priority), "
                f"most rode {most} (ethtool -S)"
            )
            remedy = "Look at NCCL_IB_TC and at trust; run: rdmaprov apply SITE --roles roce_qos"
            yield Finding(what, remedy, each.node, each.rail)


def management(node: Node, before: Document, after: Document, due_bytes: int) -> Iterator[Finding]:
    """Yield network devices beside the rails that carried a part of the data."""
    for netdev, old in before["others"].items():
        count = after["others"].get(netdev, old) - old
        if count > MANAGEMENT_SHARE * due_bytes + _SLACK_BYTES:
            what = f"{netdev}, no rail, sent {count / 1e9:.1f} GB during the run"
            yield Finding(what, "Does NCCL use sockets? See NCCL_SOCKET_IFNAME", node.name)


def congestion(rails: Sequence[RailTraffic]) -> dict[str, dict[str, int]]:
    """Return pause frames and congestion notifications, by rails that counted some."""
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
