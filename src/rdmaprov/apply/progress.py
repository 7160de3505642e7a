"""What a user sees while a run goes on: lines that stay, and on a terminal one that moves."""

from __future__ import annotations

import time
from collections import Counter
from types import TracebackType

from rich.table import Table
from rich.text import Text

from rdmaprov.apply.events import NodeEvent
from rdmaprov.apply.results import NodeResult
from rdmaprov.problem import printable
from rdmaprov.runs.screen import Screen
from rdmaprov.terminal import MANY_NODES, Line, Verbosity

# As many nodes at work as are shown; the others are counted.
_MOST_ROWS = 12
# As many nodes as are named for one and the same trouble; the summary has them all.
_MOST_ALIKE = 10


class ApplyProgress:
    """How far a run is.

    A node's role that changed something, and whatever went wrong, is one line that stays. On a
    terminal, the nodes at work and a bar move below. Each event costs the same, however many
    nodes there are; of many, what is alike is left to the summary.
    """

    def __init__(self, screen: Screen, verb: str, total: int) -> None:
        self._screen = screen
        self._at_work: dict[str, tuple[str, float]] = {}
        self._done: set[str] = set()
        self._bad: set[str] = set()
        self._alike: Counter[tuple[str, ...]] = Counter()
        self._many = total > MANY_NODES and screen.verbosity is not Verbosity.VERBOSE
        self._meter = screen.meter(verb, total, above=self._rows)

    def __enter__(self) -> ApplyProgress:
        """Begin to show."""
        self._meter.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType
    ) -> None:
        """Take the moving part away."""
        self._meter.stop()

    def show_event(self, event: NodeEvent, node: NodeResult) -> None:
        """Take in what event, and what the node is since."""
        if event.kind == "started":
            what = self._screen.mask_text(printable(event.role or event.task))
            self._at_work[node.name] = (what, time.monotonic())
            return
        self._at_work.pop(node.name, None)
        if event.kind in ("failed", "unreachable"):
            self._bad.add(node.name)
        if node.finished:
            self._done.add(node.name)
        self._meter.done, self._meter.bad = len(self._done), len(self._bad)
        line = event_line(event)
        if line is not None and not self._is_for_summary(event):
            self._screen.remark(line)

    def _is_for_summary(self, event: NodeEvent) -> bool:
        """Return whether the summary says it for many nodes at once."""
        if not self._many:
            return False
        if event.kind == "done":
            return True
        text = event.message.replace(event.node, "")
        alike = (event.kind, event.role, event.task, text)
        self._alike[alike] += 1
        return self._alike[alike] > _MOST_ALIKE

    def _rows(self) -> Table:
        """Return the nodes at work."""
        table = Table.grid(padding=(0, 2))
        now = time.monotonic()
        rows = list(self._at_work.items())
        for name, (role, since) in rows[:_MOST_ROWS]:
            table.add_row(Text(name), Text(role, style="cyan"), Text(f"{now - since:.0f} s"))
        if len(rows) > _MOST_ROWS:
            table.add_row(Text(f"and {len(rows) - _MOST_ROWS:,} more"), "", "")
        return table


def event_line(event: NodeEvent) -> Line | None:
    """Return the line that stays of an event; None if it is not worth one."""
    where = ": ".join(part for part in (event.node, event.role) if part)
    if event.kind == "unreachable":
        return Line(printable(f"{where}: unreachable: {event.message}"), "red")
    if event.kind == "failed":
        return Line(printable(f"{where}: {event.task}: failed: {event.message}"), "red")
    if event.kind == "done" and event.role and event.changed:
        number = len(event.changes)
        what = f"{number} change{'s' if number != 1 else ''}" if number else "changed"
        return Line(printable(f"{where}: {what}"), "yellow")
    return None
