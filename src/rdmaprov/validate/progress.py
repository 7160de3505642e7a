"""What the terminal shows while the suite runs, and failures grouped by kind at its end.

On a terminal, a line with counts replaces pytest's dots; -v, -q, -s and --pdb keep pytest's own
output. A pipe gets no moving line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from rdmaprov.runs.groups import label
from rdmaprov.terminal import Meter, progress_console
from rdmaprov.validate.results import message

# Kinds of failures that are printed; results.json has all.
_MOST_KINDS = 50


class Progress:
    """A plugin that shows the progress of a run, and groups its failures.

    Args:
        moves: whether a moving line may replace pytest's dots.
        grouped: whether equal failures of several nodes are printed once, at the end.
        nodes: the number of nodes.

    """

    def __init__(self, *, moves: bool, grouped: bool, nodes: int) -> None:
        self._moves, self._grouped, self._nodes = moves, grouped, nodes
        self._meter: Meter | None = None
        self._ended = False
        self._open = ExitStack()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Start the moving line if tests will run and standard error is a terminal."""
        reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and self._grouped:
            reporter.showfspath = False  # no dots follow a file's name
        if not self._moves or session.config.option.collectonly or reporter is None:
            return
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
            reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
            if reporter is not None:
                reporter.reportchars = "s"  # pytest groups skips itself

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
        """Print each kind of failure once, with its nodes."""
        if not self._grouped or terminalreporter.config.option.tbstyle != "no":
            return
        stats = terminalreporter.stats
        bad = [*stats.get("failed", ()), *stats.get("error", ())]
        if bad:
            terminalreporter.section("failures by kind; NODE stands for each of the named nodes")
        for line in kinds(bad, self._nodes):
            terminalreporter.write_line(line)


@dataclass
class _Kind:
    """One failure that several nodes have, and the tests that found it."""

    nodes: dict[str, None] = field(default_factory=dict)
    tests: dict[str, None] = field(default_factory=dict)


def kinds(reports: list[pytest.TestReport | pytest.CollectReport], total: int) -> Iterator[str]:
    """Yield each message once with its nodes, the commonest first; NODE replaces their names."""
    found: dict[str, _Kind] = {}
    for report in reports:
        node = str(dict(getattr(report, "user_properties", ())).get("node", ""))
        text = message(report)
        if node:
            text = re.sub(rf"(?<![\w.-]){re.escape(node)}(?![\w-])", "NODE", text)
        kind = found.setdefault(text, _Kind())
        kind.nodes[node or "the fleet"] = None
        kind.tests[report.nodeid.rpartition("::")[2].partition("[")[0]] = None
    for text, kind in sorted(found.items(), key=lambda item: -len(item[1].nodes))[:_MOST_KINDS]:
        yield _line(text, list(kind.nodes), list(kind.tests), total)
    if len(found) > _MOST_KINDS:
        yield f"and {len(found) - _MOST_KINDS:,} more kinds: see results.json"


def _line(text: str, nodes: list[str], tests: list[str], total: int) -> str:
    by = tests[0] if len(tests) == 1 else f"{len(tests)} tests"
    if len(nodes) == 1 and "NODE" in text:
        return f"{text.replace('NODE', nodes[0])} [{by}]"
    return f"{label(nodes, total)}: {text} [{by}]"
