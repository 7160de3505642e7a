"""What `rdmaprov watch` does; apart from its options, so that help stays fast."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from rdmaprov.acceptance.options import parse_duration
from rdmaprov.cli import session
from rdmaprov.cli.options import PasswordOptions
from rdmaprov.probe.fleet import fleet_targets
from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.envelope import Head, results_document
from rdmaprov.runs.screen import Screen
from rdmaprov.terminal import Line
from rdmaprov.watch.collect import Collector, Connect, connect_to
from rdmaprov.watch.fleet import WatchedFleet
from rdmaprov.watch.judge import judge
from rdmaprov.watch.node_account import NodeAccount
from rdmaprov.watch.results import WatchResult, with_idleness
from rdmaprov.watch.table import worst_table
from rdmaprov.watch.verdict import finding_lines, key, line
from rdmaprov.words import duration, quantity

# A verdict needs three seconds of what it names, and is named within ten.
JUDGE_S = 3.0


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
        connect = connect_to(fleet_targets(ready.fleet, ready.given.become))
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
