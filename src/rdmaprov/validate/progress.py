"""What a user sees while a suite runs, and of a large fleet at its end.

On a terminal a line with counts moves, in place of pytest's dots; pytest's -v, -q, -s and
--pdb keep pytest's own. In a pipe nothing changes.
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

# As many kinds of trouble as are shown of a large fleet; results.json has them all.
_MOST_KINDS = 50


class Progress:
    """A plugin that shows how far a run is.

    Args:
        moves: whether what moves may take the place of pytest's dots.
        many: whether the fleet is large: what is alike on many nodes is said once, at the end.
        nodes: how many there are.

    """

    def __init__(self, *, moves: bool, many: bool, nodes: int) -> None:
        self._moves, self._many, self._nodes = moves, many, nodes
        self._meter: Meter | None = None
        self._open = ExitStack()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Begin to move, unless nothing is to be run or standard error is no terminal."""
        reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
        if not self._moves or session.config.option.collectonly or reporter is None:
            return
        # A copy: pytest captures what is written to the original.
        file = self._open.enter_context(os.fdopen(os.dup(2), "w"))
        console = progress_console(file=file)
        if not console.quiet:
            self._meter = Meter(console, "judging", len(session.items), "checks")
            self._meter.start()
            self._open.callback(self._meter.stop)
            reporter.showfspath = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Take away what moves; of a large fleet, also what pytest would say of each node."""
        self._open.close()
        option = session.config.option
        if self._many and option.tbstyle == "auto":
            option.tbstyle = "no"
            reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
            if reporter is not None:
                reporter.reportchars = "s"  # pytest folds these itself

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Have pytest count a check, and print nothing for it."""
        if (self._meter is None and not self._many) or hasattr(report, "wasxfail"):
            return None
        counts = not report.passed or report.when == "call"
        if self._meter is not None and counts:
            self._meter.advance(bad=report.failed)
        if report.failed:
            return "failed" if report.when == "call" else "error", "", ""
        return report.outcome if counts else "", "", ""

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what is wrong with a large fleet: each thing once, with the nodes that have it."""
        if not self._many or terminalreporter.config.option.tbstyle != "no":
            return
        stats = terminalreporter.stats
        bad = [*stats.get("failed", ()), *stats.get("error", ())]
        if bad:
            terminalreporter.section("what is wrong; NODE stands for each of the nodes")
        for line in kinds(bad, self._nodes):
            terminalreporter.write_line(line)


@dataclass
class _Kind:
    """What some nodes have in common, and the names of the tests that say it."""

    nodes: dict[str, None] = field(default_factory=dict)
    tests: dict[str, None] = field(default_factory=dict)


def kinds(reports: list[pytest.TestReport | pytest.CollectReport], total: int) -> Iterator[str]:
    """Yield what reports say, each once with the nodes that it was said of; the commonest first.

    NODE stands for each of several nodes in what is said of them.
    """
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
        yield f"and {len(found) - _MOST_KINDS:,} more kinds; see results.json and junit.xml"


def _line(text: str, nodes: list[str], tests: list[str], total: int) -> str:
    by = tests[0] if len(tests) == 1 else f"{len(tests)} tests"
    if len(nodes) == 1 and "NODE" in text:
        return f"{text.replace('NODE', nodes[0])} [{by}]"
    return f"{label(nodes, total)}: {text} [{by}]"
