"""The result of a watch: its exit code, its JSON and its lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rdmaprov.exit_codes import ExitCode
from rdmaprov.finding.finding import Finding, exit_code
from rdmaprov.problem import printable
from rdmaprov.terminal import Line
from rdmaprov.watch.fleet import WatchedFleet
from rdmaprov.watch.node_account import NodeAccount
from rdmaprov.watch.rail import Column, RailState
from rdmaprov.watch.thresholds import BUSY_SHARE
from rdmaprov.watch.verdict import UNKNOWN, VICTIM, as_data, finding_lines, word
from rdmaprov.words import duration, quantity, some

_MOST_GAPS = 100
IDLE = Finding(
    "traffic.none",
    "no node had traffic, so nothing is known of congestion, pauses and imbalance",
    "Watch while a job runs, or run beside it: rdmaprov accept SITE",
    proven=False,
)
UNCOMPARED = Finding(
    "traffic.share",
    f"imbalance: no rail carried {BUSY_SHARE:.0%} of its line rate, too little to compare rails",
    "Watch while a job moves data between nodes",
    proven=False,
)


@dataclass(frozen=True)
class WatchResult:
    """What a watch found."""

    fleet: WatchedFleet
    verdicts: Sequence[Finding]
    was_interrupted: bool = False

    def exit_code(self) -> ExitCode:
        """Return FAILED for what is wrong, else UNKNOWN for what is unknown, else OK."""
        return exit_code(self.verdicts)

    @property
    def watched_s(self) -> float:
        """Return for how long counters were read, without the time for connections."""
        return max((rail.seen_s for _, rail in self.fleet.rails()), default=0.0)

    def busy_nodes(self) -> int:
        """Return how many nodes moved data."""
        return sum(is_busy(node) for node in self.fleet.nodes.values())

    def as_data(self) -> dict[str, Any]:
        """Return what results.json has beside its head and the nodes."""
        return {
            "watched_s": round(self.watched_s, 1),
            "ended_early": self.was_interrupted,
            "busy_nodes": self.busy_nodes(),
            "findings": [as_data(each) for each in self.verdicts],
        }

    def nodes_as_data(self) -> dict[str, Any]:
        """Return the result of each node."""
        by_node: dict[str, list[Finding]] = {name: [] for name in self.fleet.nodes}
        for each in self.verdicts:
            for name in each.nodes:
                by_node[name].append(each)
        return {name: self._node(name, own) for name, own in by_node.items()}

    def _node(self, name: str, own: Sequence[Finding]) -> dict[str, Any]:
        node = self.fleet.nodes[name]
        return {
            "state": _state(own),
            "leaf": self.fleet.leaves.get(name, ""),
            "answers": node.answers,
            "cpu_share": round(node.cpu_s / node.cpu_over_s, 5) if node.cpu_over_s else None,
            "gaps": [[round(at, 1) for at in gap] for gap in node.gaps[:_MOST_GAPS]],
            "reboots": [round(at, 1) for at in node.reboots[:_MOST_GAPS]],
            "resets": [round(at, 1) for at in node.resets[:_MOST_GAPS]],
            "rails": [_rail(node, number) for number in range(len(node.rails))],
        }

    def lines(self) -> list[Line]:
        """Return the summary for a person."""
        shown = [
            Line(text, "red" if each.proven else "yellow")
            for each, text in finding_lines(self.verdicts, "results.json")
        ]
        for name, node in self.fleet.nodes.items():
            silent = sum(to - since for since, to in node.gaps)
            if silent and node.lost is None and not node.reboots:
                shown.append(
                    Line(f"{name}: no answer for {duration(silent)}; its totals have that time")
                )
        if unread := {n: each.log_lacks for n, each in self.fleet.nodes.items() if each.log_lacks}:
            why = printable(next(iter(unread.values())))[:100]
            shown.append(Line(f"the kernel's log is not verified on {some(unread, 4)}: {why}"))
        return [*shown, Line(self._summary())]

    def _summary(self) -> str:
        states = [node["state"] for node in self.nodes_as_data().values()]
        words = (
            ("failed", "with a fault"),
            ("victim", "victims"),
            ("unknown", "unknown"),
            ("ok", "without a fault"),
        )
        parts = [f"{states.count(state):,} {word}" for state, word in words if state in states]
        said, total = ", ".join(parts), quantity(len(states), "node")
        if not self.watched_s:
            return f"{total} not watched: {said}"
        busy = f"{self.busy_nodes():,} had traffic"
        return f"{total} watched for {duration(self.watched_s)}: {said}; {busy}"


def is_busy(node: NodeAccount) -> bool:
    """Return whether a node moved data: a second's worth of one hundredth of a slow rail."""
    return any(
        max(rail.sums[Column.SENT], rail.sums[Column.RECEIVED]) > 10**7 for rail in node.rails
    )


def with_idleness(fleet: WatchedFleet, verdicts: list[Finding]) -> list[Finding]:
    """Return the verdicts, and what could not be seen where nothing, or little, moved."""
    read = [node for node in fleet.nodes.values() if node.answers]
    if read and not any(map(is_busy, read)):
        return [*verdicts, IDLE]
    several = [node for node in read if len(node.node.compute_rails) > 1]
    if several and not any(node.balance.busy for node in several):
        return [*verdicts, UNCOMPARED]
    return verdicts


def _state(own: Sequence[Finding]) -> str:
    words = {word(each) for each in own}
    if words - {VICTIM, UNKNOWN}:
        return "failed"
    return VICTIM if VICTIM in words else UNKNOWN if words else "ok"


def _rail(node: NodeAccount, number: int) -> dict[str, Any]:
    rail = node.rails[number]
    rdma, netdev = node.devices[number] if node.devices else ("", "")
    return {
        "rdma": rdma,
        "netdev": netdev,
        "seen_s": round(rail.seen_s, 1),
        "sent_bytes": rail.sums[Column.SENT],
        "received_bytes": rail.sums[Column.RECEIVED],
        "states_s": {
            state.value: round(rail.seconds(state), 1) for state in RailState if rail.seconds(state)
        },
        "counted": {
            name: count for (own, name), count in node.totals.items() if own == number and count
        },
    }
