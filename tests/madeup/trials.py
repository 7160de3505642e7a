"""Trials of the gate's diagnosis: one made-up fleet each, with at most one fault."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean

from tests.madeup.accept import Acceptance, accept
from tests.madeup.clock import CLOCKS
from tests.madeup.faults import FaultKind, Truth
from tests.madeup.shape import usual_shape

from rdmaprov.acceptance.stage_report import USUAL
from rdmaprov.finding.finding import Finding
from rdmaprov.isolation.compare import upper_tail

HEALTHY = "healthy"
_FABRIC = "the fabric"


@dataclass(frozen=True)
class Trial:
    """What came of one fleet.

    Args:
        kind: the fault's name, or `healthy`.
        accepted: whether the gate accepted it.
        found: as bench/diagnosis.py says.
        named: as bench/diagnosis.py says.
        accused: nodes that proven findings name.
        false: those of them that the fault is not on.
        rounds: of collectives.
        seconds: on the fleet's clock.
        stages: seconds of each stage, by each of clock.CLOCKS.
        named_s: after how long it was named, since the ranks that showed it began to start.
    """

    kind: str
    accepted: bool
    found: bool
    named: bool
    accused: int
    false: int
    rounds: int
    seconds: float
    stages: dict[str, list[float]] = field(default_factory=dict)
    named_s: float = 0.0


def judge(kind: str, done: Acceptance, whole_gate: bool = True) -> Trial:
    """Return what came of a fleet; without the stage fleet, none is accepted, but some are good."""
    result, names = done.result, done.fleet.shape.names
    guilty = {names[node] for truth in done.fleet.truths for node in truth.nodes}
    whole = any(truth.level == "fleet" for truth in done.fleet.truths)
    accepted = result.verdict == "accepted" if whole_gate else not result.findings
    proven = [finding for finding in result.findings if finding.proven]
    accused = {node for finding in proven if finding.level != "fleet" for node in finding.nodes}
    if any(finding.level == "fleet" for finding in proven):
        accused.add(_FABRIC)
    if whole:
        guilty = {_FABRIC}
    named = not accepted and is_named(done.fleet.truths, result.findings, names)
    seen = any(guilty & set(finding.nodes) for finding in result.findings)
    found = not accepted and (seen or whole or named)
    counts = len(accused), len(accused - guilty)
    clock = done.fleet.seconds, done.fleet.stages
    named_s = next(_named_s(done), 0.0) if named else 0.0
    return Trial(kind, accepted, found, named, *counts, done.rounds, *clock, named_s)


def _named_s(done: Acceptance) -> Iterator[float]:
    """Yield when what was said until then names what is at fault."""
    known: list[Finding] = []
    for seconds, text in done.said:
        known += [each for each in done.result.findings if each.text in text]
        if is_named(done.fleet.truths, known, done.fleet.shape.names):
            yield seconds


def is_named(truths: Sequence[Truth], findings: Sequence[Finding], names: Sequence[str]) -> bool:
    """Return whether a finding says what is at fault; of several faults at once, all are named."""
    right = [
        any(_is_right(truth, finding, names) for finding in findings if finding.level)
        for truth in truths
    ]
    several = len({truth.nodes for truth in truths}) > 1 and len({t.level for t in truths}) == 1
    return all(right) if several else any(right)


def _is_right(truth: Truth, finding: Finding, names: Sequence[str]) -> bool:
    nodes = {names[node] for node in truth.nodes}
    if finding.level != truth.level or set(finding.nodes) != nodes:
        return truth.level == finding.level == "fleet"
    # A leaf or a path may be named without its rail, a rail may not.
    return finding.rail == truth.rail or (finding.rail is None and truth.level in ("leaf", "pair"))


class KeptTrials:
    def __init__(self, file: Path | None, stages: tuple[str, ...] = USUAL) -> None:
        self._file, self._stages = file, stages
        lines = file.read_text(encoding="utf-8").splitlines() if file and file.exists() else []
        rows = [json.loads(line) for line in lines if line.endswith("}}")]  # others were cut
        self._known = {tuple(row["at"]): Trial(**row["trial"]) for row in rows}

    def has(self, kind: FaultKind | None, nodes: int, seed: int, noise: float) -> bool:
        return (kind.name if kind else HEALTHY, nodes, seed, noise) in self._known

    def get(self, kind: FaultKind | None, nodes: int, seed: int, noise: float) -> Trial:
        name = kind.name if kind else HEALTHY
        at = (name, nodes, seed, noise)
        if at not in self._known:
            self._known[at] = judge(
                name, self._run(nodes, kind, seed, noise), "fleet" in self._stages
            )
            if self._file:
                row = json.dumps({"at": at, "trial": asdict(self._known[at])})
                with self._file.open("a", encoding="utf-8") as stream:
                    stream.write(f"\n{row}\n")
        return self._known[at]

    def _run(self, nodes: int, kind: FaultKind | None, seed: int, noise: float) -> Acceptance:
        return accept(usual_shape(nodes), kind, seed, noise, stages=self._stages)


def measure(
    wanted: Sequence[FaultKind | None],
    nodes: int,
    seeds: range,
    noise: float,
    kept: KeptTrials,
    until: float | None = None,
) -> Iterator[tuple[FaultKind | None, list[Trial]]]:
    """Yield each kind with its trials; the same seed gives the same ones.

    Args:
        until: no trial begins after it, by the monotonic clock; kinds take turns then, so that
            what is done is balanced.
    """
    in_turns = [(seed, kind) for seed in seeds for kind in wanted] if until is not None else []
    for seed, kind in in_turns:
        if until is not None and time.monotonic() < until:
            kept.get(kind, nodes, seed, noise)
    for kind in wanted:
        there = (s for s in seeds if until is None or kept.has(kind, nodes, s, noise))
        if own := [kept.get(kind, nodes, seed, noise) for seed in there]:
            yield kind, own


def total(trials: Sequence[Trial]) -> dict[str, float]:
    """Return recall, precision, and how many healthy fleets were accepted, as shares."""
    bad = [each for each in trials if not each.kind.startswith(HEALTHY)]
    good = [each for each in trials if each.kind.startswith(HEALTHY)]
    accused, false = (sum(getattr(each, name) for each in trials) for name in ("accused", "false"))
    found = {
        "recall": sum(each.named for each in bad) / max(1, len(bad)),
        "found": sum(each.found for each in bad) / max(1, len(bad)),
        "precision": (accused - false) / accused if accused else 1.0,
    }
    return {**found, "accepted": sum(e.accepted for e in good) / len(good)} if good else found


def by_stage(trials: Sequence[Trial]) -> dict[str, list[float]]:
    """Return the mean seconds of each stage, by each clock; a stage that did not run took none."""
    names = dict.fromkeys(name for each in trials for name in each.stages)
    rows = {name: [each.stages.get(name, [0.0] * len(CLOCKS)) for each in trials] for name in names}
    return {name: [mean(own) for own in zip(*all_, strict=True)] for name, all_ in rows.items()}


def least_share(hits: int, count: int, level: float = 0.025) -> float:
    """Return the lower end of the 95 % interval of a share (Clopper and Pearson, 1934)."""
    low, high = 0.0, hits / count if count else 0.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if upper_tail(hits, count, middle) > level else (middle, high)
    return low
