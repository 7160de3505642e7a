"""What did not pass, by kind: one line for each problem, each reason, each lost connection."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import pytest

from rdmaprov.runs.groups import label, name_masker
from rdmaprov.validate.outcome import is_unreachable
from rdmaprov.validate.results import Outcome, message, node_of, outcome_of
from rdmaprov.words import quantity

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
    """The checks that did not pass; it keeps their kinds, and not the checks.

    Args:
        names: of the selected nodes.

    """

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
