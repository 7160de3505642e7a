"""What `rdmaprov watch` does; apart from its options, so that help stays fast."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from rich import box
from rich.table import Table

from rdmaprov.acceptance.options import parse_duration
from rdmaprov.cli import session
from rdmaprov.cli.options import PasswordOptions
from rdmaprov.probe.fleet import fleet_targets
from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.envelope import Head, results_document
from rdmaprov.runs.screen import Screen
from rdmaprov.terminal import Line
from rdmaprov.watch.collect import Collector, Connect, Connector
from rdmaprov.watch.fleet import WatchedFleet
from rdmaprov.watch.judge import judge
from rdmaprov.watch.node_account import NodeAccount
from rdmaprov.watch.rail import Column, RailAccount, RailRow
from rdmaprov.watch.results import WatchResult, with_idleness
from rdmaprov.watch.verdict import finding_lines, key, line
from rdmaprov.words import duration, quantity

ROWS = 12
_HEAD = (
    "rail",
    "leaf",
    "sent GB/s",
    "received GB/s",
    "marked",
    "CNPs/s",
    "paused",
    "pausing",
    "errors",
)
_ERRORS = ("symbol", "discard", "crc", "seq_err", "timeout", "rcv_errors", "icrc", "downed")
# A verdict needs three seconds of what it names, and is named within ten.
JUDGE_S = 3.0


def worst_table(nodes: Mapping[str, NodeAccount]) -> Table:
    """Return the worst rails, the worst first; none of those that are fine and idle."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    for place, title in enumerate(_HEAD):
        table.add_column(title, justify="left" if place < 2 else "right", no_wrap=True)
    rows = [
        (_badness(rail), name, number, node)
        for name, node in nodes.items()
        if node.lost is None and node.answers
        for number, rail in enumerate(node.rails)
    ]
    rows.sort(key=lambda row: (row[0], row[3].rails[row[2]].row.rate(Column.SENT)), reverse=True)
    for _, name, number, node in rows[:ROWS]:
        rail, leaf = node.rails[number], node.node.leaf
        table.add_row(f"{name} rail {number}", leaf, *_cells(rail.row), _errors(node, number))
    return table


def _badness(rail: RailAccount) -> float:
    """Return how far a rail is from a quiet one: the parts of a second, or of its packets."""
    row = rail.row
    return (
        10 * (row.counts[Column.DOWN] > 0)
        + row.share(Column.PAUSING)
        + row.share(Column.PAUSED)
        + row.marked_share
    )


def _cells(row: RailRow) -> list[str]:
    if row.counts[Column.DOWN]:
        return ["no link", "", "", "", "", ""]
    return [
        f"{row.rate(Column.SENT) / 1e9:.2f}",
        f"{row.rate(Column.RECEIVED) / 1e9:.2f}",
        f"{row.marked_share:.1%}",
        f"{row.rate(Column.CNPS_HANDLED) + row.rate(Column.CNPS_SENT):,.0f}",
        f"{row.share(Column.PAUSED):.0%}",
        f"{row.share(Column.PAUSING):.0%}",
    ]


def _errors(node: NodeAccount, rail: int) -> str:
    count = sum(
        total
        for (own, name), total in node.totals.items()
        if own == rail and total and any(word in name for word in _ERRORS)
    )
    return f"{count:,}" if count else ""


def watch_site(
    site: Path,
    limit: str | None,
    length: str,
    json_file: IO[str] | None,
    passwords: PasswordOptions,
) -> int:
    """Watch the nodes of a site; return the exit code."""
    seconds = parse_duration(length, "--for") or None
    with session.prepare(site, limit, json_file, passwords) as ready:
        connect = Connector(fleet_targets(ready.fleet, ready.given.become))
        head = Head("watch", site, limit, datetime.now(UTC), ready.waivers)
        with RunDirectory("watch", ready.mask, log="watch.log") as directory:
            result = _watch(ready, directory, connect, seconds)
            code = result.exit_code()
            text = directory.write_results(
                results_document(
                    head, datetime.now(UTC), code, result.nodes_as_data(), result.as_data()
                )
            )
        session.conclude(directory, text, result.lines(), ready.screen, json_file)
    return code


def _watch(
    ready: session.Prepared, directory: RunDirectory, connect: Connect, seconds: float | None
) -> WatchResult:
    accounts = {node.name: NodeAccount(node) for node in ready.fleet.nodes}
    fleet = WatchedFleet(accounts)
    length = "until Ctrl-C" if seconds is None else f"for {duration(seconds)}"
    ready.screen.remark(Line(f"watching {quantity(len(accounts), 'node')} {length}"))
    live = _Live(ready.screen, directory, fleet)
    collector = Collector(accounts, connect, live.look)
    with ready.screen.meter("watching", above=lambda: live.table):
        collector.run(seconds)
    fleet.seconds = collector.seconds
    return WatchResult(fleet, with_idleness(fleet, judge(fleet)), collector.was_interrupted)


class _Live:
    """Shows a verdict when it is first reached, and keeps it in the log."""

    def __init__(self, screen: Screen, directory: RunDirectory, fleet: WatchedFleet) -> None:
        self._screen, self._directory, self._fleet = screen, directory, fleet
        self._known: set[tuple[object, ...]] = set()
        self._next_s = JUDGE_S
        self.table = worst_table(fleet.nodes)  # a terminal draws it four times a second

    def look(self, now_s: float) -> None:
        """Find the worst rails, and judge what is known so far."""
        if self._screen.is_drawn:
            self.table = worst_table(self._fleet.nodes)
        if now_s < self._next_s:
            return
        self._next_s = now_s + JUDGE_S
        self._fleet.seconds = now_s
        found = [each for each in judge(self._fleet) if key(each) not in self._known]
        self._known |= {key(each) for each in found}
        for each in found:
            self._directory.log(f"{duration(now_s)}: {line(each)}")
        for each, text in finding_lines(found, "logs/watch.log"):
            style = "red" if each.proven else "yellow"
            self._screen.remark(Line(f"{duration(now_s)}: {text}", style))
