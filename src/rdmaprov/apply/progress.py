"""What a user sees while a run goes on: a moving picture on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rdmaprov.apply.events import Heard
from rdmaprov.apply.masks import Mask
from rdmaprov.apply.results import NodeResult
from rdmaprov.apply.summary import Line
from rdmaprov.problem import printable

# As many nodes at work as are shown; the others are counted.
_MOST_ROWS = 12


class Screen:
    """Where a run is shown, with no secret in it.

    Args:
        console: rich's; it knows whether it is a terminal, and heeds NO_COLOR and TERM=dumb.
        mask: hides secrets.

    """

    def __init__(self, console: Console, mask: Mask) -> None:
        self._console = console
        self._mask = mask

    @property
    def moves(self) -> bool:
        """Return whether a picture can be drawn over again."""
        return self._console.is_terminal and not self._console.is_dumb_terminal

    @property
    def console(self) -> Console:
        """Return rich's console."""
        return self._console

    def masked(self, text: str) -> str:
        """Return a text without secrets."""
        return self._mask.text(text)

    def show(self, line: Line) -> None:
        """Print a line; a long one is left to the terminal to wrap."""
        self._console.print(Text(self._mask.text(line.text), style=line.style), soft_wrap=True)


class Progress:
    """How far a run is.

    A node's role that changed something, and whatever went wrong, is one line that stays. On a
    terminal, the nodes at work and a bar move below. Each event costs the same, however many
    nodes there are.
    """

    def __init__(self, screen: Screen, total: int) -> None:
        self._screen = screen
        self._total = total
        self._at_work: dict[str, tuple[str, float]] = {}
        self._done: set[str] = set()
        self._bad: set[str] = set()
        self._live = (
            Live(self, console=screen.console, transient=True, refresh_per_second=4)
            if screen.moves
            else None
        )

    def __enter__(self) -> Progress:
        """Begin to show."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType
    ) -> None:
        """Take the moving part away."""
        if self._live is not None:
            self._live.stop()

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
        line = said(happened)
        if line is not None:
            self._screen.show(line)

    def __rich__(self) -> Group:
        """Return the moving part: the nodes at work, and a bar."""
        table = Table.grid(padding=(0, 2))
        now = time.monotonic()
        rows = list(self._at_work.items())
        for name, (role, since) in rows[:_MOST_ROWS]:
            table.add_row(Text(name), Text(role, style="cyan"), Text(f"{now - since:.0f} s"))
        if len(rows) > _MOST_ROWS:
            table.add_row(Text(f"and {len(rows) - _MOST_ROWS} more"), "", "")
        counts = f"{len(self._done)} of {self._total} nodes"
        bad = f", {len(self._bad)} with problems" if self._bad else ""
        bar = Table.grid(padding=(0, 2))
        bar.add_row(ProgressBar(self._total or 1, len(self._done), width=40), Text(counts + bad))
        return Group(table, bar)


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
