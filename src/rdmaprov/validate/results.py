"""What a run of the suite found, as text and as data."""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pytest

from rdmaprov.exit_codes import ExitCode
from rdmaprov.probe.ways import Takeover, relays_data
from rdmaprov.runs.groups import count_states, subject
from rdmaprov.validate.complete import Completeness
from rdmaprov.validate.fixtures import SELECTION
from rdmaprov.validate.outcome import FINDING, is_unreachable
from rdmaprov.words import quantity

# What makes values comparable in results.json, beside the nodes that have one.
COMPARED = ("test", "setting", "device", "kind", "value")


class Outcome(StrEnum):
    """What became of a check."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"  # unknown, or the node is unreachable
    SKIPPED = "skipped"  # not verified, with a reason


@dataclass(frozen=True)
class CheckResult:
    """One check that was made.

    Args:
        test: its name with what it was about, such as `test_mtu.py::test_rail_mtu[gpu07-rail3]`.
        node: the node's name; empty if it was about the fleet.
        message: why, on one line; empty if it passed.
        rail: the rail's number; None if it was about none.
        also: the other checks of the node without an answer, if it is unreachable: the reason is
            the node's, and a large fleet has hundreds of checks for each node.
        finding: kind and part of the finding, if it has a kind.
    """

    test: str
    node: str
    outcome: Outcome
    message: str = ""
    rail: int | None = None
    also: list[str] = field(default_factory=list)
    finding: Mapping[str, str] = field(default_factory=dict, hash=False)

    def as_data(self) -> dict[str, Any]:
        """Return the entry in results.json."""
        also = {"also": self.also} if self.also else {}
        return {
            "test": self.test,
            **also,
            **self.finding,
            "node": self.node,
            "rail": self.rail,
            "outcome": self.outcome,
            "message": self.message,
        }


@dataclass(eq=False)  # pytest keeps its plugins in sets
class CheckResults:
    """Everything that a run found so far; a plugin of pytest's that hears each report.

    Args:
        selected: names of those that are to be judged; None for all.
        stopped: why pytest ended the run early, as with -x; empty if it did not.
    """

    nodes: tuple[str, ...] = ()
    selected: tuple[str, ...] | None = None
    asked: Completeness = field(default_factory=Completeness)
    counts: Counter[str] = field(default_factory=Counter)
    by_node: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    by_subject: defaultdict[str, defaultdict[str, Counter[str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Counter))
    )
    unreachable: dict[str, CheckResult] = field(default_factory=dict)
    judged: list[CheckResult] = field(default_factory=list)
    stopped: str = ""
    interrupted: bool = False
    relays: Sequence[Takeover] = ()
    # What checks of the fleet compared: nodes by test, setting, device, kind and value.
    compared: dict[tuple[str, ...], list[str]] = field(default_factory=dict)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Note which nodes are selected, once the plugin has loaded the site."""
        selection = session.config.stash.get(SELECTION, None)
        if selection is not None:
            self.selected = tuple(node.name for node in selection.fleet.nodes)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a check; of a function of pytest's own, what is not only its set-up."""
        outcome = outcome_of(report)
        if outcome is None:
            return
        node = node_of(report)
        self._count(report.nodeid, node, outcome)
        compared: Any = dict(report.user_properties).get("compared", ())
        for setting, name, *rest in compared:
            self.compared.setdefault((report.nodeid, setting, *rest), []).append(name)
        if outcome is Outcome.PASSED:
            return
        text = sys.intern(message(report))  # many checks say the same
        first = self.unreachable.get(node) if is_unreachable(report) else None
        if first is not None and first.message == text:
            first.also.append(report.nodeid)
            return
        finding = getattr(report, FINDING, {})
        found = CheckResult(report.nodeid, node, outcome, text, rail_of(report), finding=finding)
        self.judged.append(found)
        if is_unreachable(report):
            self.unreachable.setdefault(node, found)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file of the suite that cannot be read."""
        if report.failed:
            self._count(report.nodeid, "", Outcome.ERROR)
            self.judged.append(CheckResult(report.nodeid, "", Outcome.ERROR, message(report)))

    def pytest_keyboard_interrupt(self) -> None:
        """Note that the user has stopped the run."""
        self.interrupted = True

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Note that the run has ended early, as with -x, and which relays were in it."""
        selection = session.config.stash.get(SELECTION, None)
        self.relays = list(getattr(selection and selection.probe, "taken", ()))
        self.stopped = str(session.shouldfail or session.shouldstop or "")

    @property
    def cut(self) -> str:
        """Return why not all checks were run; empty if they were."""
        return "interrupted" if self.interrupted else self.stopped

    def add(self, found: CheckResult) -> None:
        """Note a check that pytest did not run."""
        self._count(found.test, found.node, found.outcome)
        self.judged += [] if found.outcome is Outcome.PASSED else [found]

    def _count(self, test: str, node: str, outcome: Outcome) -> None:
        self.counts[outcome] += 1
        self.by_node[node][outcome] += 1
        self.by_subject[node][subject(test)][outcome] += 1

    def exit_code(self) -> ExitCode:
        """Return the code for all: a failure is something to repair, so it goes first.

        Only what passed proves anything: a node whose checks were all skipped is unknown.
        """
        if self.interrupted:
            return ExitCode.INTERRUPTED
        if self.counts[Outcome.FAILED]:
            return ExitCode.FAILED
        is_known = not self.counts[Outcome.ERROR] and self.counts[Outcome.PASSED]
        return ExitCode.OK if is_known and not self.not_verified() else ExitCode.UNKNOWN

    def not_verified(self) -> list[str]:
        """Return the selected nodes that no check passed on."""
        names = self.nodes if self.selected is None else self.selected
        return [name for name in names if not self._counts_of(name)[Outcome.PASSED]]

    def _counts_of(self, name: str) -> Counter[str]:
        """Return the counts of a node; those of the fleet if no check is about single nodes."""
        if self.by_node.keys() - {""}:
            return self.by_node.get(name, Counter())
        return self.by_node.get("", Counter())

    def as_data(self) -> dict[str, Any]:
        """Return counts for the run and for the fleet, and each check that did not pass."""
        return {
            **relays_data(self.relays),
            "counts": _counted(self.counts),
            "fleet": self._subjects(""),
            "complete": {"fleet": self._is_fleet_complete(), "left_out": self.asked.left_out},
            "checks": [one.as_data() for one in self.judged],
            "compared": compared_data(self.compared),
        }

    def nodes_as_data(self) -> dict[str, Any]:
        """Return for each node its state, its counts, and those of each subject."""
        return {
            name: {
                "state": self.state(name),
                "complete": self.is_complete(name),
                "boot_id": boot,
                "uptime_s": uptime,
                **_counted(found),
                "subjects": self._subjects(name),
            }
            for name in self.nodes
            for found in [self.by_node.get(name, Counter())]
            for boot, uptime in [self.asked.boots.get(name, ("", 0.0))]
        }

    def is_complete(self, name: str) -> bool:
        """Return whether a node was asked everything that is about it alone, in one boot."""
        answered = name in self.asked.boots and name not in self.unreachable
        return answered and self.asked.is_complete(name, self.by_node.get(name, {}))

    def _is_fleet_complete(self) -> bool:
        """Return whether all nodes of the site took part in the checks of the fleet."""
        whole = not self.asked.is_limited and set(self.selected or self.nodes) == set(self.nodes)
        answered = not self.unreachable and self.asked.is_complete("", self.by_node.get("", {}))
        return whole and answered and not self.cut

    def state(self, name: str) -> str:
        """Return a node's state: failed, unknown or passed.

        It is unknown after an error, if nothing passed, and if not all checks were run.
        """
        found = self._counts_of(name)
        if found[Outcome.FAILED]:
            return "failed"
        is_proven = found[Outcome.PASSED] and not found[Outcome.ERROR] and not self.cut
        return "passed" if is_proven else "unknown"

    def _subjects(self, name: str) -> dict[str, dict[str, int]]:
        return {key: dict(found) for key, found in self.by_subject.get(name, {}).items()}


def compared_data(compared: Mapping[tuple[str, ...], list[str]]) -> list[dict[str, Any]]:
    """Return what checks of the fleet compared, as results.json has it."""
    names = (*COMPARED, "nodes")
    return [dict(zip(names, (*key, nodes), strict=True)) for key, nodes in compared.items()]


def _counted(found: Counter[str]) -> dict[str, int]:
    return {outcome: found[outcome] for outcome in Outcome}


def outcome_of(report: pytest.TestReport | pytest.CollectReport) -> Outcome | None:
    """Return what became of a check; None if a report is only of its set-up or its end."""
    if report.passed:
        return Outcome.PASSED if report.when == "call" else None
    if report.skipped:
        return Outcome.SKIPPED
    return Outcome.FAILED if report.when == "call" else Outcome.ERROR


def node_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the name of a report's node; empty if it is about the fleet."""
    return str(dict(getattr(report, "user_properties", ())).get("node", ""))


def rail_of(report: pytest.TestReport) -> int | None:
    """Return the number of a report's rail; None if it is about none."""
    found = dict(getattr(report, "user_properties", ())).get("rail")
    return found if isinstance(found, int) else None


def message(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return what a report says, on one line."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = str(crash.message if crash is not None else report.longrepr or "").strip().splitlines()
    return lines[-1] if lines and crash is None else "".join(lines[:1])


def lines(findings: CheckResults) -> Iterable[str]:
    """Yield the summary: nodes by state, those that did not pass by name, and checks by outcome."""
    if findings.cut:
        yield f"not all checks were run: {findings.cut}"
    yield from (each.text for each in findings.relays)
    states = {name: _shown_state(findings, name) for name in findings.nodes}
    nodes = count_states(states, _SHOWN, _SHOWN.keys() - {"passed"})
    yield f"{nodes}; {_checks(findings.counts)}"


_SHOWN = {state: state for state in ("passed", "failed", "unreachable", "unknown")}
_OTHERS = {
    Outcome.FAILED: "failed",
    Outcome.ERROR: "unknown",
    Outcome.SKIPPED: "skipped (not verified)",
}


def _shown_state(findings: CheckResults, name: str) -> str:
    state = findings.state(name)
    return "unreachable" if state == "unknown" and name in findings.unreachable else state


def _checks(counts: Counter[str]) -> str:
    others = [f"{counts[each]:,} {words}" for each, words in _OTHERS.items() if counts[each]]
    return ", ".join([f"{quantity(counts[Outcome.PASSED], 'check')} passed", *others])
