"""What the terminal shows while the suite runs, and what did not pass, by kind, at its end.

On a terminal, a line with counts replaces pytest's dots. A pipe gets no moving line. -v and --pdb
keep pytest's own output.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from rdmaprov.validate import outcome
from rdmaprov.validate.kinds import Kinds

if TYPE_CHECKING:
    from rdmaprov.terminal import Meter

# What pytest's own summary would say of each check.
_OURS = "fEs"


class Progress:
    """A plugin that shows the progress of a run, and groups what did not pass.

    Args:
        config: of the run.
        moves: whether a moving line may replace pytest's dots.
        grouped: whether equal results of several nodes are printed once, at the end.
        nodes: the nodes' names.

    """

    def __init__(
        self, config: pytest.Config, *, moves: bool, grouped: bool, nodes: Collection[str]
    ) -> None:
        self._config = config
        self._moves, self._grouped = moves, grouped
        self._kinds = Kinds(nodes)
        self._meter: Meter | None = None
        self._ended = False
        self._open = ExitStack()

    @property
    def _reporter(self) -> Any:  # noqa: ANN401 - pytest's, and private
        return self._config.pluginmanager.get_plugin("terminalreporter")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Start the moving line if tests will run and standard error is a terminal."""
        reporter = self._reporter
        if reporter is not None and self._grouped:
            reporter.showfspath = False  # no dots follow a file's name
        if not self._moves or session.config.option.collectonly or reporter is None:
            return
        if not os.isatty(2):
            return  # before rich is imported, which takes a while
        from rdmaprov.terminal import Meter, progress_console

        # A copy: pytest captures what is written to the original.
        file = self._open.enter_context(os.fdopen(os.dup(2), "w"))
        console = progress_console(file=file)
        if not console.quiet:
            self._meter = Meter(console, "validating", len(session.items), "checks")
            self._meter.start()
            self._open.callback(self._meter.stop)
            reporter.showfspath = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Remove the moving line; where failures are grouped, also pytest's own list of them."""
        self._open.close()
        self._ended = True  # from here on, pytest asks for the words of its own summary
        option = session.config.option
        if self._grouped and option.tbstyle == "auto":
            option.tbstyle = "no"
            reporter = self._reporter
            if reporter is not None:
                chars = [each for each in reporter.reportchars if each not in _OURS]
                reporter.reportchars = "".join(chars)

    @pytest.hookimpl(trylast=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Have pytest say that the run was interrupted, and not where in the code."""
        if self._reporter is not None and not self._config.getoption("fulltrace"):
            self._reporter._keyboardinterrupt_memo = outcome.one_line(excinfo, "interrupted")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Group a check that did not pass."""
        if self._grouped and not hasattr(report, "wasxfail"):
            self._kinds.add(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Group a file of the suite that cannot be read."""
        if self._grouped:
            self._kinds.add(report)

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Count a check without printing anything for it."""
        quiet = self._meter is not None or self._grouped
        if not quiet or self._ended or hasattr(report, "wasxfail"):
            return None
        counts = not report.passed or report.when == "call"
        if self._meter is not None and counts:
            self._meter.advance(bad=report.failed)
        if report.failed:
            return "failed" if report.when == "call" else "error", "", ""
        return report.outcome if counts else "", "", ""

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print each kind of problem once with its nodes, then each reason for skipping."""
        if not self._grouped or terminalreporter.config.option.tbstyle != "no":
            return
        sections = {
            "problems by kind; NODE is each of the named nodes, of devices the first is shown": (
                self._kinds.problems()
            ),
            "skipped (not verified), by reason": self._kinds.skipped(),
        }
        for title, lines in sections.items():
            for number, line in enumerate(lines):
                if number == 0:
                    terminalreporter.section(title)
                terminalreporter.write_line(line)
