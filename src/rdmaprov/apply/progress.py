"""What a user sees while a run goes on: lines that stay, and on a terminal one that moves."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rdmaprov.apply.events import Heard
from rdmaprov.apply.masks import Mask
from rdmaprov.apply.results import NodeResult
from rdmaprov.apply.summary import Line
from rdmaprov.problem import printable
from rdmaprov.terminal import MANY_NODES, Meter, moving_console
from rdmaprov.verbosity import Verbosity

# As many nodes at work as are shown; the others are counted.
_MOST_ROWS = 12
# As many nodes as are named for one and the same trouble; the summary has them all.
_MOST_ALIKE = 10


class Screen:
    """Where a run is shown, with no secret in it.

    Args:
        console: rich's, of the lines that stay; it heeds NO_COLOR and TERM=dumb.
        mask: hides secrets.
        verbosity: how much is said.

    """

    def __init__(
        self, console: Console, mask: Mask, verbosity: Verbosity = Verbosity.NORMAL
    ) -> None:
        self._console = console
        self._mask = mask
        self.verbosity = verbosity
        self._meter: Meter | None = None

    def moving(
        self,
        what: str,
        total: int = 0,
        unit: str = "nodes",
        above: Callable[[], Table] | None = None,
    ) -> Meter:
        """Return what moves below the lines from now on."""
        self._meter = Meter(moving_console(self.verbosity), what, total, unit, above)
        return self._meter

    def masked(self, text: str) -> str:
        """Return a text without secrets."""
        return self._mask.text(text)

    def show(self, line: Line) -> None:
        """Print a line; a long one is left to the terminal to wrap."""
        # What moves and what stays on one terminal must be drawn by the same hand.
        moving = self._meter.console if self._meter is not None else None
        console = moving if moving is not None and self._console.is_terminal else self._console
        console.print(Text(self._mask.text(line.text), style=line.style), soft_wrap=True)

    def remark(self, line: Line) -> None:
        """Print a line of the way to the result, unless the user wants the result alone."""
        if self.verbosity is not Verbosity.QUIET:
            self.show(line)

    def detail(self, text: str) -> None:
        """Print what a program below said, if the user wants to see that."""
        if self.verbosity is Verbosity.VERBOSE:
            for line in text.splitlines():
                self.show(Line(printable(line), "dim"))


class Progress:
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
        self._meter = screen.moving(verb, total, above=self._rows)

    def __enter__(self) -> Progress:
        """Begin to show."""
        self._meter.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType
    ) -> None:
        """Take the moving part away."""
        self._meter.stop()

    def hear(self, happened: Heard, node: NodeResult) -> None:
        """Take in what happened, and what the node is since."""
        if happened.kind == "started":
            what = self._screen.masked(printable(happened.role or happened.task))
            self._at_work[node.name] = (what, time.monotonic())
            return
        self._at_work.pop(node.name, None)
        if happened.kind in ("failed", "unreachable"):
            self._bad.add(node.name)
        if node.finished:
            self._done.add(node.name)
        self._meter.done, self._meter.bad = len(self._done), len(self._bad)
        line = said(happened)
        if line is not None and not self._is_left_out(happened):
            self._screen.remark(line)

    def _is_left_out(self, happened: Heard) -> bool:
        """Return whether the summary says it for many nodes at once."""
        if not self._many:
            return False
        if happened.kind == "done":
            return True
        text = happened.message.replace(happened.node, "")
        alike = (happened.kind, happened.role, happened.task, text)
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


def said(happened: Heard) -> Line | None:
    """Return the line that stays of an event; None if it is not worth one."""
    where = ": ".join(part for part in (happened.node, happened.role) if part)
    if happened.kind == "unreachable":
        return Line(printable(f"{where}: unreachable: {happened.message}"), "red")
    if happened.kind == "failed":
        return Line(printable(f"{where}: {happened.task}: failed: {happened.message}"), "red")
    if happened.kind == "done" and happened.role and happened.changed:
        number = len(happened.changes)
        what = f"{number} change{'s' if number != 1 else ''}" if number else "changed"
        return Line(printable(f"{where}: {what}"), "yellow")
    return None
