"""What a user sees of work that takes a while: one place that decides what moves, and where.

What a program may read goes to standard output. What moves goes to standard error, and only to a
terminal that can move (TERM is not dumb), so nothing of it reaches a pipe or a file.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rdmaprov.verbosity import Verbosity

# Who waits less than this wants to see the answer, not a picture that goes away at once.
DELAY_S = 2.0
# Up to so many nodes, each may have lines of its own; above, what is alike is said once.
MANY_NODES = 64
_REFRESH_HZ = 4


def moving_console(verbosity: Verbosity = Verbosity.NORMAL, file: TextIO | None = None) -> Console:
    """Return the console of what moves; it is quiet where nothing may move.

    Not as rich would decide: FORCE_COLOR makes it take a pipe for a terminal.
    """
    file = file or sys.stderr
    console = Console(file=file, highlight=False)
    console.quiet = verbosity is Verbosity.QUIET or not file.isatty() or console.is_dumb_terminal
    return console


def elapsed(seconds: float) -> str:
    """Return a time as minutes and seconds, with hours if there are any.

    >>> elapsed(75), elapsed(3675)
    ('1:15', '1:01:15')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Meter:
    """What goes on, how far it is and for how long, on a line that moves below all others.

    It is there after DELAY_S, and gone at the end.

    Args:
        console: of `moving_console`.
        what: what goes on.
        total: how many there are to do; 0 if that is not known.
        unit: what they are, in the plural.
        above: gives what moves above the line, if anything does.

    Attributes:
        what: may be changed while it moves, as may the following.
        total: as above.
        done: how many are done.
        bad: of those, how many have problems.

    """

    def __init__(
        self,
        console: Console,
        what: str,
        total: int = 0,
        unit: str = "nodes",
        above: Callable[[], RenderableType] | None = None,
    ) -> None:
        self.what, self.total, self.unit = what, total, unit
        self.done = self.bad = 0
        self._above = above
        self._console = console
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._over = False
        self._timer: threading.Timer | None = None
        self._live: Live | None = None

    def __enter__(self) -> Self:
        """Begin."""
        self.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType
    ) -> None:
        """End."""
        self.stop()

    def start(self) -> None:
        """Begin; what moves is shown after a while."""
        self._began = time.monotonic()
        if self._console.quiet:
            return
        if DELAY_S <= 0:
            self._show()
        else:
            self._timer = threading.Timer(DELAY_S, self._show)
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        """Take away what moves."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._over = True
            if self._live is not None:
                self._live.stop()
                self._live = None

    def _show(self) -> None:
        with self._lock:
            if not self._over:
                self._live = Live(
                    self,
                    console=self._console,
                    transient=True,
                    refresh_per_second=_REFRESH_HZ,
                    redirect_stdout=False,
                    redirect_stderr=False,
                )
                self._live.start(refresh=True)

    @property
    def console(self) -> Console | None:
        """Return where lines must be printed while something moves there; else None."""
        live = self._live
        return live.console if live is not None else None

    def advance(self, *, bad: bool = False) -> None:
        """Count one that is done."""
        self.done += 1
        self.bad += bad

    def count(self, done: int, total: int) -> None:
        """Set how many are done, and of how many."""
        self.done, self.total = done, total

    def text(self) -> str:
        """Return the line: what goes on, counts if there are any, time since it began."""
        counts = f"{self.done:,} of {self.total:,} {self.unit}" if self.total else ""
        bad = f"{self.bad:,} with problems" if self.bad else ""
        time_ = elapsed(time.monotonic() - self._began)
        return ", ".join(part for part in (self.what, counts, bad, time_) if part)

    def __rich__(self) -> RenderableType:
        """Return what moves."""
        line = Table.grid(padding=(0, 2))
        words = Text(self.text(), overflow="ellipsis", no_wrap=True)
        if self.total:
            line.add_row(ProgressBar(self.total, self.done, width=24), words)
        else:
            line.add_row(words)
        return Group(*([self._above()] if self._above else []), line)
