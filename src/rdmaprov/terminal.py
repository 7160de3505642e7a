"""The progress line on a terminal.

Results go to standard output. Progress goes to standard error, and only to a terminal that can
move the cursor (TERM is not dumb), so that none of it reaches a pipe or a file.
"""

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rdmaprov.verbosity import Verbosity

# Work that is done sooner shows no progress line, which would only flash.
DELAY_S = 2.0
# Up to this many nodes, each may have lines of its own; above, equal lines are grouped.
MANY_NODES = 64
_REFRESH_HZ = 4


@dataclass(frozen=True)
class Line:
    """One line to show; the style is one of rich's."""

    text: str
    style: str = ""


def progress_console(
    verbosity: Verbosity = Verbosity.NORMAL, file: TextIO | None = None
) -> Console:
    """Return the console for progress; it is quiet if standard error is no such terminal.

    rich alone would decide wrongly: with FORCE_COLOR it takes a pipe for a terminal.
    """
    file = file or sys.stderr
    console = Console(file=file, highlight=False)
    console.quiet = verbosity is Verbosity.QUIET or not file.isatty() or console.is_dumb_terminal
    return console


def format_elapsed(seconds: float) -> str:
    """Return a time as minutes and seconds, with hours if there are any.

    >>> format_elapsed(75), format_elapsed(3675)
    ('1:15', '1:01:15')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Meter:
    """The progress line below all others: the current stage, counts and elapsed time.

    It appears after DELAY_S and disappears at the end.

    Args:
        total: the number of items; 0 if unknown.
        above: returns the rows above the line, if there are any.

    Attributes:
        what: can be changed while the line is shown, as can the following.
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
        """Start."""
        self.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType
    ) -> None:
        """Stop."""
        self.stop()

    def start(self) -> None:
        """Start to count; show the line after DELAY_S."""
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
        """Remove the line."""
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
        """Return the console to print on while the line is shown; else None."""
        live = self._live
        return live.console if live is not None else None

    def advance(self, *, bad: bool = False) -> None:
        """Count one finished item."""
        self.done += 1
        self.bad += bad

    def count(self, done: int, total: int) -> None:
        """Set the number of finished items, and the total."""
        self.done, self.total = done, total

    def text(self) -> str:
        """Return the line: stage, counts if there are any, elapsed time."""
        counts = f"{self.done:,} of {self.total:,} {self.unit}" if self.total else ""
        bad = f"{self.bad:,} with problems" if self.bad else ""
        time_ = format_elapsed(time.monotonic() - self._began)
        return ", ".join(part for part in (self.what, counts, bad, time_) if part)

    def __rich__(self) -> RenderableType:
        """Return the line with the rows above it."""
        line = Table.grid(padding=(0, 2))
        words = Text(self.text(), overflow="ellipsis", no_wrap=True)
        if self.total:
            line.add_row(ProgressBar(self.total, self.done, width=24), words)
        else:
            line.add_row(words)
        return Group(*([self._above()] if self._above else []), line)
