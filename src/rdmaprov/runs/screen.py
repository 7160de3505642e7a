"""Where a run is shown to its user."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rdmaprov.problem import printable
from rdmaprov.runs.masks import Mask
from rdmaprov.terminal import Line, Meter, Verbosity, progress_console


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

    def meter(
        self,
        what: str,
        total: int = 0,
        unit: str = "nodes",
        above: Callable[[], Table] | None = None,
    ) -> Meter:
        """Return what moves below the lines from now on."""
        self._meter = Meter(progress_console(self.verbosity), what, total, unit, above)
        return self._meter

    def mask_text(self, text: str) -> str:
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
