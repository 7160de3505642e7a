"""A check: one test of a node, a rail or the fleet, at a tenth of a pytest function's cost.

pytest sets a function up, calls it and tears it down, and makes three reports; with a fixture for
each argument that is most of a check's time once the answers are there. A check has nothing to set
up: its arguments are taken from its target, and it makes one report. docs/decisions/validate.md has
the numbers.

A large fleet has half a million checks, so each is as small as pytest lets it be.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import pytest
from _pytest.mark.structures import NodeKeywords

from rdmaprov.validate import outcome
from rdmaprov.validate.selection import CheckTarget, Selection


class _OnDemand:
    """An attribute that pytest makes for each item; here it is made when somebody asks for it."""

    def __init__(self, make: Callable[[Check], object]) -> None:
        self._make = make

    def __set_name__(self, _owner: type[Check], name: str) -> None:
        self._name = name

    def __get__(self, check: Check | None, _owner: type[Check]) -> object:
        if check is None:
            return self
        own = vars(check)
        if self._name not in own:
            own[self._name] = self._make(check)
        return own[self._name]

    def __set__(self, _check: Check, _value: object) -> None:
        """Drop what pytest's constructor makes, which is empty."""


class _Stash(_OnDemand):
    """The place where plugins keep what is theirs; a quarter of a check if it is there unused."""

    def __get__(self, check: Check | None, owner: type[Check]) -> object:
        # vars() would make a dictionary of each check's attributes, which is as large.
        if check is not None and not hasattr(check, "function"):
            return None  # for another name of it, which pytest's constructor gives it
        return super().__get__(check, owner)


@dataclass(frozen=True)
class CheckFunction:
    """A test function, and what its checks share."""

    call: Callable[..., object]
    arguments: frozenset[str]
    selection: Selection
    marks: tuple[pytest.Mark, ...]
    live: bool  # whether its commands are all run anew
    file: str  # relative to pytest's root
    line: int  # counted from 0
    hook: Any  # pytest's hooks at the file, which it looks for anew for each item


class Check(pytest.Item):
    """One test of one node, or of one rail, or of the fleet."""

    function: CheckFunction
    keywords: Any = _OnDemand(lambda check: check.make_keywords())
    own_markers: Any = _OnDemand(lambda check: list(check.function.marks))
    extra_keyword_matches: Any = _OnDemand(lambda _: set())
    user_properties: Any = _OnDemand(lambda check: check.make_properties())
    _report_sections: Any = _OnDemand(lambda _: [])
    stash: Any = _Stash(lambda _: pytest.Stash())
    _store: Any = _OnDemand(lambda check: check.stash)
    # pytest's own looks for the place anew for each item.
    location: Any = _OnDemand(lambda check: (check.function.file, check.function.line, check.name))

    def __init__(
        self,
        *,
        function: CheckFunction,
        target: CheckTarget | None,
        **node: Any,  # noqa: ANN401 - pytest's
    ) -> None:
        super().__init__(**node)
        self.function = function
        self.target = target

    @property
    def ihook(self) -> Any:  # noqa: ANN401 - pytest's
        """Return the hooks of the check's file."""
        return self.function.hook

    @property
    def obj(self) -> Callable[..., object]:
        """Return the function, which pytest's own items have under this name."""
        return self.function.call

    def make_keywords(self) -> NodeKeywords:
        """Return the names that the check answers to."""
        keywords = NodeKeywords(self)
        keywords.update({mark.name: mark for mark in self.function.marks})
        return keywords

    def make_properties(self) -> list[tuple[str, object]]:
        """Return what reports carry: the node and the rail, or what was compared."""
        if self.target is not None:
            return self.target.properties
        hosts = self.function.selection.hosts
        compared, hosts.compared = hosts.compared, []
        return [("compared", compared)] if compared else []

    @classmethod
    def from_parent(cls, parent: pytest.Collector, **arguments: Any) -> Self:  # noqa: ANN401
        """Return a check; see pytest.Item."""
        return super().from_parent(parent, **arguments)

    def runtest(self) -> None:
        """Call the test."""
        if self.function.selection.probe is not None:
            self.function.selection.probe.live = self.function.live
        self.obj(**{name: self._value(name) for name in self.function.arguments})

    def _value(self, name: str) -> object:
        selection = self.function.selection
        if name == "fleet":
            return selection.fleet
        if name == "hosts":
            return selection.hosts
        assert self.target is not None  # noqa: S101 - it was made for its arguments
        if name == "host":
            return selection.hosts[self.target.node.name]
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
        # From pytest 9.1 on, an object: of the text, the report would make another one.
        node_id: Any = self.id if hasattr(self, "id") else self.nodeid
        report = pytest.TestReport(
            node_id, self.location, {self.name: 1}, "passed", None, "call", (),
            seconds, start, start + seconds, self.user_properties,
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
