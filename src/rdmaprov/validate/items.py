"""Checks: tests whose arguments are nodes and hosts alone, at a tenth of a pytest function's cost.

pytest sets a function up, calls it and tears it down, and makes three reports; with a fixture for
each argument that is most of a check's time once the answers are there (docs/architecture.md has
the numbers). A check has nothing to set up: its arguments are taken from its target, and it makes
one report. Tests with fixtures or marks of another kind stay pytest's own functions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Self

import pytest
from _pytest.mark.structures import get_unpacked_marks

from rdmaprov.validate import outcome
from rdmaprov.validate.selection import Selection, Target

ARGUMENTS = frozenset({"host", "node", "rail", "fleet", "hosts"})
_OF_NODE = frozenset({"host", "node", "rail"})
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
        target: Target | None,
        marks: list[pytest.Mark],
        **node: Any,  # noqa: ANN401 - pytest's
    ) -> None:
        super().__init__(**node)
        self.obj = function
        self.target = target
        self._arguments = arguments
        self._selection = selection
        self.own_markers.extend(marks)
        for mark in marks:
            self.keywords[mark.name] = mark

    @classmethod
    def from_parent(cls, parent: pytest.Collector, **arguments: Any) -> Self:  # noqa: ANN401
        """Return a check; see pytest.Item."""
        return super().from_parent(parent, **arguments)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Return where the test is written, and its name."""
        return self.path, self.obj.__code__.co_firstlineno - 1, self.name

    def runtest(self) -> None:
        """Call the test."""
        values: dict[str, object] = {}
        for name in self._arguments:
            values[name] = self._value(name)
        self.obj(**values)

    def _value(self, name: str) -> object:
        if name == "fleet":
            return self._selection.fleet
        if name == "hosts":
            return self._selection.hosts
        assert self.target is not None  # noqa: S101 - it was made for its arguments
        if name == "host":
            return self._selection.hosts[self.target.node.name]
        return getattr(self.target, name)

    def judged(self) -> pytest.TestReport:
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
            self._tell(report, found)
        return report

    def _tell(self, report: pytest.TestReport, found: pytest.ExceptionInfo[BaseException]) -> None:
        if isinstance(found.value, pytest.skip.Exception):
            last = found.traceback[-1]
            report.outcome = "skipped"
            report.longrepr = (str(last.path), last.lineno + 1, f"Skipped: {found.value.msg}")
            return
        report.outcome = "failed"
        if outcome.wants_one_line(self.config):
            report.longrepr = outcome.shown(found)
        else:
            report.longrepr = self.repr_failure(found)
        outcome.classify(report, found)


def checks(
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
    made = {"function": function, "arguments": asked, "selection": selection, "marks": marks}
    if not asked & _OF_NODE:
        return [Check.from_parent(collector, name=name, target=None, **made)]
    return [
        Check.from_parent(collector, name=f"{name}[{target.id}]", target=target, **made)
        for target in targets(asked, selection)
    ]


# The fixtures that those of ARGUMENTS are made from, and pytest's own.
_BEHIND = ARGUMENTS | {"_target", "_selection", "request"}


def targets(asked: frozenset[str], selection: Selection) -> tuple[Target, ...]:
    """Return what a test with these arguments is run for."""
    return selection.rails if "rail" in asked else selection.nodes


def run(check: Check, next_item: pytest.Item | None) -> None:
    """Run a check and have everybody hear of it, as pytest does with an item."""
    hook = check.ihook
    hook.pytest_runtest_logstart(nodeid=check.nodeid, location=check.location)
    hook.pytest_runtest_logreport(report=check.judged())
    hook.pytest_runtest_logfinish(nodeid=check.nodeid, location=check.location)
    state = check.session._setupstate
    if state.stack:  # of a function of pytest's that ran before
        state.teardown_exact(next_item)


def of(item: pytest.Item) -> Target | None:
    """Return what an item is about, None if it is about the fleet, or not ours."""
    if isinstance(item, Check):
        return item.target
    call = getattr(item, "callspec", None)
    found = call.params.get("_target") if call is not None else None
    return found if isinstance(found, Target) else None


def node_by_node(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the items of one node after the other, each node's in their order; the fleet's last."""
    by_node: dict[str, list[pytest.Item]] = {}
    others: list[pytest.Item] = []
    for item in items:
        target = of(item)
        (others if target is None else by_node.setdefault(target.node.name, [])).append(item)
    for own in by_node.values():
        yield from own
    yield from others
