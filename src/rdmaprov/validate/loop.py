"""How checks run: as pytest runs an item, or, in a large fleet, in a loop that costs less.

What nobody needs any more is given back: a check once it ran, its report once everybody heard of
it. pytest keeps both.
"""

from __future__ import annotations

from typing import Any

import pytest

from rdmaprov.validate.check import Check

# Stands for each report that the terminal need not keep: plugins look into all of its reports.
_FORGOTTEN = pytest.TestReport("", ("", None, ""), {}, "passed", None, "call")


def run(check: Check, next_item: pytest.Item | None) -> None:
    """Run a check and have everybody hear of it, as pytest does with an item."""
    hook = check.ihook
    hook.pytest_runtest_logstart(nodeid=check.nodeid, location=check.location)
    hook.pytest_runtest_logreport(report=check.make_report())
    hook.pytest_runtest_logfinish(nodeid=check.nodeid, location=check.location)
    _tear_down(check, next_item)


def _tear_down(check: Check, next_item: pytest.Item | None) -> None:
    """Tear down what a function of pytest's own has set up before, such as its module."""
    state = check.session._setupstate
    if state.stack:
        state.teardown_exact(next_item)


def run_many(session: pytest.Session) -> None:
    """Run a session's items; of a check, only its report is passed on.

    What else pytest does around each item (its warnings, its log, its progress) costs more than
    the check.
    """
    forgotten = _forgotten(session.config)
    plugins = session.config.pluginmanager
    if plugins.has_plugin("nfplugin") and not session.config.option.newfirst:
        plugin = plugins.unregister(name="nfplugin")  # it would record each name
        getattr(plugin, "cached_nodeids", set()).clear()  # pytest holds on to it
    if plugins.has_plugin("subtests") and all(isinstance(each, Check) for each in session.items):
        # It keeps each check's id, in case it had subtests, which only pytest's own items have.
        plugins.unregister(name="subtests")
    waiting = session.items[::-1]
    session.items.clear()
    while waiting:
        item = waiting.pop()
        following = waiting[-1] if waiting else None
        if isinstance(item, Check):
            _report(item, forgotten)
            _tear_down(item, following)
        else:
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)


def _forgotten(config: pytest.Config) -> dict[str, list[object]]:
    """Return the terminal's lists of reports, if nothing that it will print needs these."""
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or config.option.tbstyle != "auto" or "p" in terminal.reportchars.lower():
        return {}
    lists: dict[str, list[object]] = terminal.stats
    return lists


def _report(check: Check, forgotten: dict[str, list[object]]) -> None:
    """Run a check and pass on its report, which the terminal then need not keep."""
    report = check.make_report()
    check.config.hook.pytest_runtest_logreport(report=report)
    for kept in forgotten.values():
        if kept and kept[-1] is report:
            kept[-1] = _FORGOTTEN  # it still counts
