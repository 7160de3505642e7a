"""Nodes whose rails count as a lab's: packets of Soft-RoCE, bytes, priorities as of mlx5."""

import json
from collections.abc import Mapping, Sequence

from rdmaprov.finding.finding import Finding
from rdmaprov.inventory import Node
from rdmaprov.watch.answers import parse_names, parse_steps
from rdmaprov.watch.fleet import WatchedFleet
from rdmaprov.watch.judge import judge
from rdmaprov.watch.node_account import NodeAccount
from rdmaprov.watch.results import with_idleness
from rdmaprov.watch.verdict import line

# As `open` of watch/node/counters.py lists them on a node of the lab.
NAMES = (
    *("hw.sent_pkts", "hw.rcvd_pkts", "hw.out_of_seq_request", "hw.rcvd_seq_err"),
    *("hw.completer_retry_err", "hw.retry_exceeded_err", "hw.link_downed", "down"),
    *("netdev.tx_bytes", "netdev.rx_bytes", "carrier_changes", "ethtool.tx_bytes_phy"),
    *("ethtool.rx_bytes_phy", "ethtool.rx_discards_phy", "ethtool.link_down_events_phy"),
    *(f"ethtool.tx_prio{each}_{unit}" for each in range(8) for unit in ("bytes", "packets")),
    *("ethtool.rx_prio3_discards", "ethtool.rx_prio3_pause_duration"),
    "ethtool.tx_prio3_pause_duration",
)
Counts = Mapping[str, int]
PACKET = 4170  # 4 KiB and headers


def load(packets: int, sent: int = -1, priority: int = 3) -> dict[str, int]:
    """Return what a rail counts in a second; of its packets, `sent` leave, or all for -1."""
    sent = packets if sent < 0 else sent
    moved = {
        f"ethtool.tx_prio{priority}_packets": sent,
        f"ethtool.tx_prio{priority}_bytes": sent * PACKET,
    }
    both = {
        "netdev.tx_bytes": sent,
        "ethtool.tx_bytes_phy": sent,
        "netdev.rx_bytes": packets,
        "ethtool.rx_bytes_phy": packets,
    }
    moved |= {name: count * PACKET for name, count in both.items()}
    return {**moved, "hw.sent_pkts": packets, "hw.rcvd_pkts": packets}


class SoftRoceWatch:
    def __init__(self, nodes: Sequence[Node]) -> None:
        self.accounts = {node.name: NodeAccount(node) for node in nodes}
        self.second = 0
        for node in nodes:
            rails = [
                {"rdma": f"mlx5_{number}", "netdev": f"ens{number}"}
                for number in range(len(node.rails))
            ]
            keys = [f"{number}/{name}" for number in range(len(rails)) for name in NAMES]
            opened = {
                "us": 0,
                "cpu_us": 0,
                "boot": "1",
                "names": keys,
                "counts": [7] * len(keys),
                "rails": rails,
            }
            self.accounts[node.name].start(parse_names(json.dumps(opened), len(rails)), 0.0)

    def pass_seconds(self, seconds: int, told: Mapping[tuple[str, int], Counts]) -> None:
        for _ in range(seconds):
            self.second += 1
            for name, account in self.accounts.items():
                grown = [
                    (place, told.get((name, rail), {}).get(counter, 0))
                    for place, (rail, counter) in enumerate(account.keys)
                ]
                step = {
                    "us": 1_000_000 * self.second,
                    "cpu_us": 900 * self.second,
                    "gone": [],
                    "at": [place for place, by in grown if by],
                    "by": [by for _, by in grown if by],
                }
                account.add(parse_steps(json.dumps(step), len(account.keys)), float(self.second))

    def verdicts(self) -> list[Finding]:
        fleet = WatchedFleet(self.accounts, float(self.second))
        return with_idleness(fleet, judge(fleet))

    def seconds_until_named(
        self, told: Mapping[tuple[str, int], Counts], node: str, rail: int, most: int = 20
    ) -> int:
        """Return after how many seconds a rail is named, judged each third one."""
        for passed in range(1, most + 1):
            self.pass_seconds(1, told)
            found = [each for each in self.verdicts() if each.proven] if passed % 3 == 0 else []
            if any(node in each.nodes and each.rail == rail for each in found):
                return passed
        raise AssertionError([line(each) for each in self.verdicts()])
