"""Nodes whose counters grow as mlx5's do, second by second: with noise, with faults, seeded."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rdmaprov.inventory import Node
from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.errors import NodeUnreachable
from rdmaprov.watch.thresholds import PACKET_BYTES

Place = tuple[int, int]  # a node's number and its rail
# By what a made-up rail does, the counter that says so.
NAMES = {
    "sent": "port.port_xmit_data", "received": "port.port_rcv_data",
    "sent_phy": "ethtool.tx_bytes_phy", "received_phy": "ethtool.rx_bytes_phy",
    "waits": "port.port_xmit_wait",
    "marked": "hw.np_ecn_marked_roce_packets", "cnps_sent": "hw.np_cnp_sent",
    "cnps_handled": "hw.rp_cnp_handled",
    "out_of_sequence": "hw.out_of_sequence", "lost": "hw.packet_seq_err",
    "timeouts": "hw.local_ack_timeout_err", "adaptive": "hw.roce_adp_retrans",
    "paused_us": "ethtool.rx_prio3_pause_duration", "paused": "ethtool.rx_prio3_pause",
    "pausing_us": "ethtool.tx_prio3_pause_duration", "pausing": "ethtool.tx_prio3_pause",
    "storms": "ethtool.tx_pause_storm_error_events",
    "stalls": "ethtool.outbound_pci_stalled_wr_events",
    "symbols": "ethtool.rx_pcs_symbol_err_phy", "old_symbols": "port.symbol_error",
    "discards": "ethtool.rx_prio3_discards", "all_discards": "ethtool.rx_discards_phy",
    "tx_discards": "port.port_xmit_discards", "rcv_errors": "port.port_rcv_errors",
    "link_downs": "ethtool.link_down_events_phy", "link_downed": "port.link_downed",
    "priority": "ethtool.tx_prio3_bytes", "other_priority": "ethtool.tx_prio0_bytes",
    "changes": "carrier_changes", "down": "down",
}  # fmt: skip


@dataclass
class RailSecond:
    """What one rail does in a second: parts of its line, of its packets and of the second."""

    load: float
    received: float = -1.0  # as its load
    marked: float = 0.0
    cnps_handled: float = 0.0
    paused: float = 0.0
    pausing: float = 0.0
    bit_errors: float = 1e-16
    astray: float = 0.0  # of its bytes, with another priority
    counts: dict[str, int] = field(default_factory=dict)


Fleet = list[list[RailSecond]]  # by node and rail
Fault = Callable[["MadeUpWatch", Fleet, int], None]


@dataclass
class MadeUpWatch:
    """A fleet that works on its collectives, and what its nodes answer."""

    nodes: Sequence[Node]  # as the site has them, with leaves
    seed: int = 0  # of all chance
    faults: Sequence[Fault] = ()  # each changes what the rails do in a second
    is_idle: bool = False  # whether no job runs
    left_out: frozenset[str] = frozenset()
    second: int = 0
    kernel_log: dict[int, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Draw where counters stand: they count since the firmware started."""
        self.chance = random.Random(self.seed)
        self.rails = len(self.nodes[0].rails)
        self.used = [name for name in NAMES if NAMES[name] not in self.left_out]
        self.levels = [
            [
                {
                    name: self.chance.randrange(1 << 40)
                    if name in _BIG
                    else self.chance.randrange(9)
                    for name in NAMES
                }
                for _ in range(self.rails)
            ]
            for _ in self.nodes
        ]
        self.boots = [f"{number:08x}" for number in range(len(self.nodes))]
        self.links: list[MadeUpLink] = []
        self.silent: set[int] = set()
        self.odd_answers: dict[int, str] = {}

    @property
    def names(self) -> list[str]:
        return [f"{rail}/{NAMES[name]}" for rail in range(self.rails) for name in self.used]

    def pass_second(self) -> None:
        """Let a second pass: a job's phases, noise on each rail, then what is wrong."""
        self.second += 1
        phase = 0.0 if self.is_idle else self.chance.choice((0.5, 0.6, 0.7, 0.75))
        rows = [[self._usual(phase) for _ in range(self.rails)] for _ in self.nodes]
        for fault in self.faults:
            fault(self, rows, self.second)
        for number, row in enumerate(rows):
            for rail, second in enumerate(row):
                self._count(self.levels[number][rail], number, rail, second)

    def _usual(self, phase: float) -> RailSecond:
        """Return a healthy second: short pauses, few marks, and now and then a burst."""
        chance = self.chance
        is_burst = chance.random() < 0.03
        return RailSecond(
            load=phase * chance.gauss(1, 0.01) if phase else 1e-7,
            marked=(chance.uniform(0.005, 0.03) if is_burst else chance.uniform(0, 0.002))
            * (phase > 0),
            cnps_handled=chance.uniform(0, 3000 if is_burst else 300) * (phase > 0),
            paused=chance.uniform(0, 0.08 if is_burst else 0.01) * (phase > 0),
            pausing=chance.uniform(0, 0.005) * (phase > 0),
            counts={"out_of_sequence": chance.randrange(50)} if phase else {},
        )

    def _count(self, at: dict[str, int], number: int, rail: int, second: RailSecond) -> None:
        node = self.nodes[number]
        line = 1e9 * node.link_gbps(node.rails[rail]) / 8
        received = second.load if second.received < 0 else second.received
        packets = received * line / PACKET_BYTES
        wrong = _poisson(self.chance, second.bit_errors * 8 * line)
        grown = {
            "sent": second.load * line / 4,
            "received": received * line / 4,
            "sent_phy": second.load * line * 1.02,
            "received_phy": received * line * 1.02,
            "priority": (1 - second.astray) * second.load * line * 1.02,
            "other_priority": second.astray * second.load * line * 1.02,
            "marked": second.marked * packets,
            "cnps_sent": min(40_000.0, second.marked * packets / 4),
            "cnps_handled": second.cnps_handled,
            "paused_us": 1e6 * second.paused,
            "paused": 2e3 * second.paused,
            "pausing_us": 1e6 * second.pausing,
            "pausing": 2e3 * second.pausing,
            "symbols": wrong,
            "old_symbols": wrong,
            **second.counts,
        }
        for name, count in grown.items():
            at[name] += int(count)

    def counts(self, number: int) -> list[int]:
        return [self.levels[number][rail][name] for rail in range(self.rails) for name in self.used]


_BIG = {
    *("sent", "received", "sent_phy", "received_phy", "paused_us", "pausing_us", "marked"),
    *("cnps_sent", "cnps_handled", "out_of_sequence", "waits"),
}


def _poisson(chance: random.Random, mean: float) -> int:
    if mean > 50:
        return max(0, round(chance.gauss(mean, mean**0.5)))
    left, count = chance.random(), -1
    term = 2.718281828459045**-mean
    while left >= 0:
        left -= term
        count += 1
        term *= mean / (count + 1)
    return count


class MadeUpLink:
    """A connection to a made-up node: answers as watch/node/counters.py writes them.

    Seconds pass for all nodes alike, as they do for real ones: whoever has read one is answered
    again when all others have, however busy this machine is.
    """

    def __init__(self, watch: MadeUpWatch, number: int) -> None:
        self._watch, self._number = watch, number
        self._last: list[int] = []
        self._began = self._read = watch.second
        self._answers = 0
        watch.links.append(self)

    def send(self, command: Command) -> asyncio.Future[Answer]:
        """Answer at once, or when the others have read this second."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._answer(loop, command, future)
        return future

    def _answer(
        self, loop: asyncio.AbstractEventLoop, command: Command, future: asyncio.Future[Answer]
    ) -> None:
        if future.done():  # nobody waits for it any more
            return
        if self._number in self._watch.silent:
            name = self._watch.nodes[self._number].name
            future.set_exception(NodeUnreachable(f"{name}: the connection ended", "Look."))
        elif command.text == "read" and self._is_ahead():
            loop.call_later(0.001, self._answer, loop, command, future)
        else:
            future.set_result(Answer(0, self.text(command.text), ""))

    def _is_ahead(self) -> bool:
        away = {*self._watch.silent, *self._watch.odd_answers}
        others = (each for each in self._watch.links if each._number not in away)
        return any(each._read < self._read for each in others)

    def text(self, asked: str) -> str:
        watch, number = self._watch, self._number
        if number in watch.odd_answers:
            return watch.odd_answers[number]
        if asked == "log":
            return json.dumps({"log": watch.kernel_log.get(number, []), "lacks": ""})
        if asked == "read" and watch.second == self._read:
            watch.pass_second()  # whoever asks again has waited for it
        self._read = watch.second
        now = watch.counts(number)
        self._answers += 1
        # Its clock: a little after the second, as a busy node answers late.
        late = watch.chance.randrange(1000)
        document: dict[str, Any] = {
            "us": (watch.second - self._began) * 1_000_000 + late,
            "cpu_us": 400 * self._answers,
        }
        if asked == "open":
            devices = [
                {"rdma": f"mlx5_{rail}", "netdev": f"ens{rail}"} for rail in range(watch.rails)
            ]
            document |= {
                "boot": watch.boots[number],
                "names": watch.names,
                "counts": now,
                "rails": devices,
            }
        else:
            at = [place for place, each in enumerate(now) if each != self._last[place]]
            by = [now[place] - self._last[place] for place in at]
            document |= {"at": at, "by": by, "gone": []}
        self._last = now
        return json.dumps(document, separators=(",", ":"))

    def close(self) -> None:
        """Let no other node wait for this one."""
        if self in self._watch.links:
            self._watch.links.remove(self)


def leaf_nodes(watch: MadeUpWatch, place: Place) -> Iterator[int]:
    leaf = watch.nodes[place[0]].get("fabric_leaf")
    for number, node in enumerate(watch.nodes):
        if number != place[0] and node.get("fabric_leaf") == leaf:
            yield number
