"""The output of a run for its user."""

from collections.abc import Callable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rdmaprov.problem import printable
from rdmaprov.runs.masks import Mask
from rdmaprov.terminal import Line, Meter, progress_console
from rdmaprov.verbosity import Verbosity


class Screen:
    """Prints the lines of a run, without secrets.

    Args:
        console: rich's, for the lines that stay; it respects NO_COLOR and TERM=dumb.
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
        """Return a meter; from now on lines are printed above it."""
        self._meter = Meter(progress_console(self.verbosity), what, total, unit, above)
        return self._meter

    @property
    def is_drawn(self) -> bool:
        """Return whether the meter, with what is above it, is on a terminal now."""
        return self._meter is not None and self._meter.console is not None

    @property
    def is_terminal(self) -> bool:
        """Return whether the lines that stay go to a terminal."""
        return self._console.file.isatty()

    def mask_text(self, text: str) -> str:
        """Return a text without secrets."""
        return self._mask.text(text)

    def show(self, line: Line) -> None:
        """Print a line; a long one is left to the terminal to wrap."""
        # On one terminal, the same console must print the lines and draw the meter.
        moving = self._meter.console if self._meter is not None else None
        console = moving if moving is not None and self._console.is_terminal else self._console
        console.print(Text(self._mask.shown(line.text), style=line.style), soft_wrap=True)

    def remark(self, line: Line) -> None:
        """Print a line of progress, unless --quiet is set."""
        if self.verbosity is not Verbosity.QUIET:
            self.show(line)

    def detail(self, text: str) -> None:
        """Print the output of Ansible or ssh, if --verbose is set."""
        if self.verbosity is Verbosity.VERBOSE:
            for line in text.splitlines():
                self.show(Line(printable(line), "dim"))
