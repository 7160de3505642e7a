"""Collectives of all nodes over the fabric; see docs/acceptance.md.

It loads every rail of every node, so it runs only on request: `-m acceptance`, or by its file.
Nodes that failed a check earlier in the same run are not measured.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from rdmaprov.acceptance.gate import Gate, Options
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.stages import preflight
from rdmaprov.facts import CouldNotTell
from rdmaprov.finding.finding import Finding
from rdmaprov.inventory import Fleet
from rdmaprov.runs.last_word import Word, last_words
from rdmaprov.runs.masks import name_site
from rdmaprov.validate.fixtures import SELECTION
from rdmaprov.validate.selection import Selection

pytestmark = pytest.mark.acceptance


def test_all_reduce(fleet: Fleet, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """An all-reduce over all nodes returns correct values, and all evidence passes."""
    selection = request.config.stash[SELECTION]
    wrong = _wrong_state(request.config)
    # Nodes that are validated in this very run need no earlier one.
    alone = {each.path for each in request.session.items} == {Path(__file__)}
    words = last_words(fleet.site, [node.name for node in fleet.nodes]) if alone else None
    findings = wrong or _accepted(fleet, selection, tmp_path, words).findings
    lines = [finding.text for finding in findings]
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    told = "\n".join([lines[0] + more, *lines[1:]]) if lines else ""
    told = name_site(told, request.config.getoption("inventory"))
    if any(finding.proven for finding in findings):
        pytest.fail(told, pytrace=False)
    if findings:
        raise CouldNotTell(told)


def _accepted(
    fleet: Fleet, selection: Selection, directory: Path, words: Mapping[str, Word] | None
) -> GateResult:
    if selection.probe is None:
        raise CouldNotTell("acceptance needs rdmaprov's own connections: pass a pattern to --hosts")

    def keep(name: str, text: str) -> Path:
        path = directory / name
        path.write_text(text, encoding="utf-8")
        return path

    gate = Gate(fleet.nodes, selection.probe, Options(), keep, print, words=words)
    result = gate.run()
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def _wrong_state(config: pytest.Config) -> list[Finding]:
    """Return the nodes of which a test of this run has already failed."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reports = [] if reporter is None else reporter.stats.get("failed", [])
    named = [(dict(report.user_properties).get("node"), report.nodeid) for report in reports]
    first = {str(node): test for node, test in reversed(named) if node}
    return [preflight.wrong_state(node, f"{test} failed") for node, test in sorted(first.items())]
