"""Checks: tests whose arguments are nodes and hosts alone, at a tenth of a pytest function's cost.

pytest sets a function up, calls it and tears it down, and makes three reports; with a fixture for
each argument that is most of a check's time once the answers are there (docs/architecture.md has
the numbers). A check has nothing to set up: its arguments are taken from its target, and it makes
one report. Tests with fixtures or marks of another kind stay pytest's own functions.
"""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

import pytest
from _pytest.mark.structures import get_unpacked_marks

from rdmaprov.validate import outcome
from rdmaprov.validate.selection import CheckTarget, Selection

ARGUMENTS = frozenset({"host", "node", "rail", "fleet", "hosts"})
_OF_NODE = frozenset({"host", "node", "rail"})
# The mark of tests whose commands are all run anew.
LIVE = "path"
# What these do is in pytest's set-up and call.
_PYTEST_MARKS = frozenset({"skip", "skipif", "xfail", "parametrize", "usefixtures"})


class Check(pytest.Item):
    """One test of one node, or of one rail, or of the fleet."""

    def __init__(
        self,
        *,
        function: Callable[..., object],
        arguments: frozenset[str],
        selection: Selection,
        target: CheckTarget | None,
        marks: list[pytest.Mark],
        place: tuple[str, int],
        live: bool,
        **node: Any,  # noqa: ANN401 - pytest's
    ) -> None:
        super().__init__(**node)
        self.obj = function
        self.target = target
        self._arguments = arguments
        self._selection = selection
        self._live = live
        # pytest finds it anew for each item, which is a third of what an item costs.
        self.location = (*place, self.name)
        self.own_markers.extend(marks)
        for mark in marks:
            self.keywords[mark.name] = mark

    @classmethod
    def from_parent(cls, parent: pytest.Collector, **arguments: Any) -> Self:  # noqa: ANN401
        """Return a check; see pytest.Item."""
        return super().from_parent(parent, **arguments)

    def runtest(self) -> None:
        """Call the test."""
        if self._selection.probe is not None:
            self._selection.probe.live = self._live
        self.obj(**{name: self._value(name) for name in self._arguments})

    def _value(self, name: str) -> object:
        if name == "fleet":
            return self._selection.fleet
        if name == "hosts":
            return self._selection.hosts
        assert self.target is not None  # noqa: S101 - it was made for its arguments
        if name == "host":
            return self._selection.hosts[self.target.node.name]
        return getattr(self.target, name)

    def make_report(self) -> pytest.TestReport:
        """Return the report of a run."""
        start = time.time()
        begun = time.perf_counter()
        found = None
        try:
            self.runtest()
        except (KeyboardInterrupt, SystemExit, pytest.exit.Exception):
            raise
        except BaseException:
            found = pytest.ExceptionInfo.from_current()
        seconds = time.perf_counter() - begun
        report = pytest.TestReport(
            self.nodeid, self.location, {self.name: 1}, "passed", None, "call",
            (), seconds, start, start + seconds, self.user_properties,
        )  # fmt: skip
        if found is not None:
            self._record(report, found)
        return report

    def _record(
        self, report: pytest.TestReport, found: pytest.ExceptionInfo[BaseException]
    ) -> None:
        if isinstance(found.value, pytest.skip.Exception):
            report.outcome = "skipped"
            file, line, _ = self.location  # and not the place in pytest that raises
            report.longrepr = (file, (line or 0) + 1, f"Skipped: {found.value.msg}")
            return
        report.outcome = "failed"
        if outcome.wants_one_line(self.config):
            report.longrepr = outcome.one_line(found)
        else:
            report.longrepr = self.repr_failure(found)
        outcome.classify(report, found)


def make_checks(
    collector: pytest.Module, name: str, function: Callable[..., object], selection: Selection
) -> list[Check] | None:
    """Return the checks that a test function is, None if it must be pytest's own."""
    marks = list(get_unpacked_marks(function))
    if any(mark.name in _PYTEST_MARKS for mark in marks):
        return None
    # As pytest itself asks for a function's definition; its annotation says Item.
    manager: Any = collector.session._fixturemanager
    fixtures = manager.getfixtureinfo(collector, function, None)
    asked = frozenset(fixtures.argnames)
    if not asked <= ARGUMENTS or not set(fixtures.names_closure) <= asked | _BEHIND:
        return None
    place = collector.session._node_location_to_relpath(collector.path)
    made = {
        "function": function,
        "arguments": asked,
        "selection": selection,
        "marks": marks,
        "live": any(mark.name == LIVE for mark in [*marks, *collector.iter_markers()]),
        "place": (place, function.__code__.co_firstlineno - 1),
    }
    if not asked & _OF_NODE:
        return [_check(collector, name, None, made)]
    return [
        _check(collector, f"{name}[{target.id}]", target, made)
        for target in targets(asked, selection)
    ]


def _check(
    collector: pytest.Module, name: str, target: CheckTarget | None, made: dict[str, Any]
) -> Check:
    # In a name that pytest joins itself, it does not tell what is in the brackets from the rest,
    # and --lf then finds no such test again.
    nodeid = f"{collector.nodeid}::{name}"
    return Check.from_parent(collector, name=name, nodeid=nodeid, target=target, **made)


# The fixtures that those of ARGUMENTS are made from, and pytest's own.
_BEHIND = ARGUMENTS | {"_target", "_selection", "request"}


def targets(asked: frozenset[str], selection: Selection) -> tuple[CheckTarget, ...]:
    """Return what a test with these arguments is run for."""
    return selection.rails if "rail" in asked else selection.nodes


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
    report = session.config.hook.pytest_runtest_logreport
    enabled = gc.isenabled()
    gc.disable()  # it would look at all items again and again, and they all stay
    try:
        for item, following in itertools.pairwise([*session.items, None]):
            if isinstance(item, Check):
                report(report=item.make_report())
                _tear_down(item, following)
            elif item is not None:
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
    finally:
        if enabled:
            gc.enable()


def target_of(item: pytest.Item) -> CheckTarget | None:
    """Return what an item is about, None if it is about the fleet, or not ours."""
    if isinstance(item, Check):
        return item.target
    call = getattr(item, "callspec", None)
    found = call.params.get("_target") if call is not None else None
    return found if isinstance(found, CheckTarget) else None


def node_by_node(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the items of one node after the other, each node's in their order; the fleet's last."""
    by_node: dict[str, list[pytest.Item]] = {}
    others: list[pytest.Item] = []
    for item in items:
        target = target_of(item)
        (others if target is None else by_node.setdefault(target.node.name, [])).append(item)
    for own in by_node.values():
        yield from own
    yield from others
