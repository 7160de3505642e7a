"""What each counter says of a rail."""

import re
from collections.abc import Collection

from rdmaprov.inventory import Node
from rdmaprov.watch.rail import WORD_BYTES, Column

Key = tuple[int, str]  # a rail's number, and the counter
# A counter's column, and what one of it is: InfiniBand counts words of 4 bytes (InfiniBand
# Architecture 1.4, 16.1.3.5). Of several counters of one thing, the largest is taken: RDMA is
# missing in some, and what is not RDMA in others.
_COLUMNS = {
    "port.port_xmit_data": (Column.SENT, WORD_BYTES),
    "ethtool.tx_bytes_phy": (Column.SENT, 1),
    "netdev.tx_bytes": (Column.SENT, 1),
    "port.port_rcv_data": (Column.RECEIVED, WORD_BYTES),
    "ethtool.rx_bytes_phy": (Column.RECEIVED, 1),
    "netdev.rx_bytes": (Column.RECEIVED, 1),
    "hw.np_ecn_marked_roce_packets": (Column.MARKED, 1),
    "hw.np_cnp_sent": (Column.CNPS_SENT, 1),
    "hw.rp_cnp_handled": (Column.CNPS_HANDLED, 1),
    "ethtool.tx_pause_storm_warning_events": (Column.STORMS, 1),
    "ethtool.tx_pause_storm_error_events": (Column.STORMS, 1),
    "ethtool.outbound_pci_stalled_rd_events": (Column.STALLS, 1),
    "ethtool.outbound_pci_stalled_wr_events": (Column.STALLS, 1),
    "carrier_changes": (Column.CHANGES, 1),
    "down": (Column.DOWN, 1),
}
_PAUSE = re.compile(r"ethtool\.([rt])x_(prio\d|global)_pause_duration")
_WAYS = {"r": Column.PAUSED, "t": Column.PAUSING}


def column_of(name: str) -> tuple[Column, int] | None:
    """Return what a counter says of a rail, and the size of one; None if it is only added up."""
    if found := _PAUSE.fullmatch(name):
        return _WAYS[found[1]], 1
    return _COLUMNS.get(name)


_NEEDED = {Column.SENT: "bytes (counters/port_xmit_data, statistics/tx_bytes)"}
_NEEDED_OF_ROCE = {
    Column.MARKED: "ECN marks (hw_counters/np_ecn_marked_roce_packets)",
    Column.CNPS_HANDLED: "CNPs (hw_counters/rp_cnp_handled)",
    Column.PAUSED: "pause frames (ethtool -S: rx_prioN_pause_duration)",
}


def missing_counters(node: Node, keys: Collection[Key]) -> tuple[str, ...]:
    """Return what no counter of a node says, in words; with the rail if others have it.

    A rail without any counter is left out: it is not there.
    """
    needed = {**_NEEDED, **(_NEEDED_OF_ROCE if is_roce(node) else {})}
    there = {(rail, found[0]) for rail, name in keys if (found := column_of(name))}
    rails = {rail for rail, name in keys if name != "down"}
    lines: dict[str, None] = {}
    for what, words in needed.items():
        without = [rail for rail in sorted(rails) if (rail, what) not in there]
        if len(without) == len(rails):
            lines.update({words: None} if rails else {})
        else:
            lines.update((f"rail {rail}: {words}", None) for rail in without)
    if is_roce(node) and rails and not any(_counts_priorities(keys, rail) for rail in rails):
        lines["RDMA by priority (counters/port_xmit_data with ethtool -S: tx_prioN_bytes)"] = None
    return tuple(lines)


def _counts_priorities(keys: Collection[Key], rail: int) -> bool:
    """Return whether a rail counts RDMA alone, and what it sends by priority, in one unit."""
    pairs = (
        ("port.port_xmit_data", "ethtool.tx_prio0_bytes"),
        ("hw.sent_pkts", "ethtool.tx_prio0_packets"),
    )
    return any((rail, rdma) in keys and (rail, all_) in keys for rdma, all_ in pairs)


def is_roce(node: Node) -> bool:
    """Return whether a node's fabric is RoCE: InfiniBand has no pause frames."""
    return str(node.get("fabric_kind")) == "roce"


def lossless_priority(node: Node) -> int | None:
    """Return the priority on which a node allows no loss, None if there is none."""
    priority = node.get("fabric_lossless_priority")
    return int(priority) if is_roce(node) and priority is not None else None
