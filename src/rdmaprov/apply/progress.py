"""The progress of a run: lines that stay, and on a terminal a bar that moves below them."""

import time
from collections import Counter

from rich.table import Table
from rich.text import Text

from rdmaprov.apply.events import NodeEvent
from rdmaprov.apply.results import NodeResult
from rdmaprov.problem import printable
from rdmaprov.runs.groups import name_masker
from rdmaprov.runs.screen import Screen
from rdmaprov.terminal import MANY_NODES, Line
from rdmaprov.verbosity import Verbosity
from rdmaprov.words import quantity

# Nodes at work that are shown; the others are counted.
_MOST_ROWS = 12
# Nodes that are named for the same failure; the summary has all of them.
_MOST_REPEATS = 10


class ApplyProgress:
    """Shows the progress of a run.

    Each role that changed a node and each failure is one line that stays. On a terminal, the
    nodes at work and a bar move below. The cost of an event does not depend on the number of
    nodes; on a large fleet, repeated lines are left to the summary.

    Attributes:
        meter: the bar, shown while it is a context.
    """

    def __init__(self, screen: Screen, verb: str, total: int) -> None:
        self._screen = screen
        self._at_work: dict[str, tuple[str, float]] = {}
        self._under_way: dict[str, tuple[str, float]] = {}
        self._done: set[str] = set()
        self._bad: set[str] = set()
        self._repeats: Counter[tuple[str, ...]] = Counter()
        self._many = total > MANY_NODES and screen.verbosity is not Verbosity.VERBOSE
        self.meter = screen.meter(verb, total, above=self._rows)

    def show_event(self, event: NodeEvent, node: NodeResult) -> None:
        """Show an event, given the node's result since then."""
        if event.kind == "started":
            what = self._screen.mask_text(printable(event.role or event.task))
            self._at_work[node.name] = (what, time.monotonic())
            return
        self._at_work.pop(node.name, None)
        if node.under_way:
            since = self._under_way.setdefault(node.name, (node.under_way, time.monotonic()))
            self._at_work[node.name] = since
        else:
            self._under_way.pop(node.name, None)
        if event.kind in ("failed", "unreachable"):
            self._bad.add(node.name)
        if node.finished:
            self._done.add(node.name)
        self.meter.done, self.meter.bad = len(self._done), len(self._bad)
        line = event_line(event)
        if line is not None and not self._is_for_summary(event):
            self._screen.remark(line)

    def _is_for_summary(self, event: NodeEvent) -> bool:
        """Return whether to leave an event to the summary, which groups nodes."""
        if event.kind == "unreachable" and self._screen.verbosity is not Verbosity.VERBOSE:
            lost = ("lost", name_masker({event.node})(event.message))
            self._repeats[lost] += 1
            return self._repeats[lost] > 1
        if event.kind == "running":
            self._repeats[event.node, event.message] += 1
            return self._repeats[event.node, event.message] > 1
        if not self._many:
            return False
        if event.kind == "done":
            return True
        text = event.message.replace(event.node, "")
        key = (event.kind, event.role, event.task, text)
        self._repeats[key] += 1
        return self._repeats[key] > _MOST_REPEATS

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
    """Return the line of an event; None if it has none."""
    where = ": ".join(part for part in (event.node, event.role) if part)
    if event.kind == "unreachable":
        return Line(printable(f"{where}: unreachable: {event.message}"), "red")
    if event.kind == "failed":
        return Line(printable(f"{where}: {event.task}: failed: {event.message}"), "red")
    if event.kind == "running" and event.message:
        return Line(printable(f"{where}: {event.message}"))
    if event.kind == "done" and event.role and event.changed:
        what = quantity(len(event.changes), "change") if event.changes else "changed"
        return Line(printable(f"{where}: {what}"), "yellow")
    return None
