"""What the terminal shows while the suite runs, and what did not pass, by kind, at its end.

On a terminal, a line with counts replaces pytest's dots. A pipe gets no moving line. -v and --pdb
keep pytest's own output.
"""

import os
import re
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pytest

from rdmaprov.runs.groups import label, name_masker
from rdmaprov.validate import outcome
from rdmaprov.validate.outcome import is_unreachable
from rdmaprov.validate.results import Outcome, message, node_of, outcome_of
from rdmaprov.words import quantity

if TYPE_CHECKING:
    from rdmaprov.terminal import Meter


# Kinds that are printed, reasons for skips, and the characters of each; results.json has all.
_MOST_KINDS = 50
_MOST_REASONS = 5
_MOST_TEXT = 500
# Raw messages whose mask is kept: the checks of a node come together, and often say the same.
_KNOWN = 1024
_PROBLEMS = (Outcome.FAILED, Outcome.ERROR)


@dataclass
class _Kind:
    """One message that several checks have, as the first of them words it."""

    outcome: Outcome
    text: str
    checks: int = 0
    nodes: dict[str, None] = field(default_factory=dict)
    tests: dict[str, None] = field(default_factory=dict)


class Kinds:
    """The checks that did not pass; it keeps their kinds, and not the checks."""

    def __init__(self, names: Collection[str]) -> None:
        self._total = len(names)
        self._mask = lru_cache(_KNOWN)(name_masker(names))
        self._found: dict[tuple[Outcome, str], _Kind] = {}
        self._lost: dict[str, _Kind] = {}

    def add(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Count a check that did not pass."""
        outcome = outcome_of(report)
        if outcome is None or outcome is Outcome.PASSED:
            return
        node = node_of(report)
        kind = self._lost.get(node) if is_unreachable(report) else None
        if kind is None:
            text = message(report)
            key = outcome, self._mask(text)
            kind = self._found.setdefault(key, _Kind(outcome, _generalize(text, node)))
        if is_unreachable(report):
            self._lost[node] = kind
        kind.checks += 1
        kind.nodes[node or "the fleet"] = None
        kind.tests[report.nodeid.rpartition("::")[2].partition("[")[0]] = None

    def problems(self) -> Iterator[str]:
        """Yield what failed and then what is unknown, the commonest first."""
        return self._lines(_PROBLEMS, _MOST_KINDS)

    def skipped(self) -> Iterator[str]:
        """Yield why checks were skipped, the commonest reason first."""
        return self._lines([Outcome.SKIPPED], _MOST_REASONS)

    def _lines(self, outcomes: Collection[Outcome], most: int) -> Iterator[str]:
        found = [kind for kind in self._found.values() if kind.outcome in outcomes]
        found.sort(key=lambda kind: (kind.outcome is not Outcome.FAILED, -len(kind.nodes)))
        lost = {id(kind) for kind in self._lost.values()}
        for kind in found[:most]:
            yield self._line(kind, is_lost=id(kind) in lost)
        if len(found) > most:
            yield f"and {len(found) - most:,} more: see the report"

    def _line(self, kind: _Kind, *, is_lost: bool) -> str:
        nodes, found = list(kind.nodes), f"[{_found_by(kind)}]"
        text = _shorten(kind.text.removeprefix("NODE: ") if is_lost else kind.text)
        if len(nodes) == 1 and "NODE" in text:
            return f"{text.replace('NODE', nodes[0])} {found}"
        return f"{label(nodes, self._total)}: {text} {found}"


def _found_by(kind: _Kind) -> str:
    tests = list(kind.tests)
    by = tests[0] if len(tests) == 1 else quantity(len(tests), "test")
    return by if kind.checks == len(kind.nodes) else f"{by}, {quantity(kind.checks, 'check')}"


def _generalize(text: str, node: str) -> str:
    """Return a message with NODE for the node's name."""
    return re.sub(rf"(?<![\w.-]){re.escape(node)}(?![\w-])", "NODE", text) if node else text


def _shorten(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}… (whole: results.json)"


# What pytest's own summary would say of each check.
_OURS = "fEs"


class Progress:
    """A plugin that shows the progress of a run, and groups what did not pass.

    Args:
        moves: whether a moving line may replace pytest's dots.
        grouped: whether equal results of several nodes are printed once, at the end.
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
