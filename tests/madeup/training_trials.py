"""Trials of the stage `training`: one fleet each; bench/training.py says what is counted."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from tests.madeup import training
from tests.madeup.accept import Acceptance
from tests.madeup.collectives import Cost, choose_algorithm, costs
from tests.madeup.condition import Condition
from tests.madeup.faults import FaultKind
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.flows import Team
from tests.madeup.trials import HEALTHY, is_named

from rdmaprov.acceptance.ranks.jobs import node_counts
from rdmaprov.acceptance.training.plan import STRATEGIES, choose_model
from rdmaprov.inventory.schema import load_shipped
from rdmaprov.isolation.compare import BAD_SHARE

_NEAR = 0.03
_TOUCHED = 1.03
_LARGE_BYTES = 1 << 30
Efficiencies = dict[tuple[str, int], float]


@dataclass(frozen=True)
class TrainingTrial:
    """What came of one fleet.

    Args:
        kind: the fault's name, or `healthy`.
        touched: whether the fault touches training.
        efficiency: whether each one is right.
        knee: whether it is right.
        named: as the module says.
        false: nodes that proven findings name, and the fault is not on.
        rounds: of tasks.
        seconds: on the fleet's clock.
    """

    kind: str
    touched: bool
    efficiency: bool
    knee: bool
    named: bool
    false: int
    rounds: int
    seconds: float


@dataclass(frozen=True)
class _Physics:
    """Steps and messages of a fleet without noise: microseconds by strategy, size and group."""

    steps: dict[tuple[str, int], list[float]]
    messages: dict[int, list[float]]

    def efficiencies(self) -> Efficiencies:
        """Return each size's tokens a second, by those of one node."""
        one = {name: statistics.median(self.steps[name, 1]) for name in STRATEGIES}
        return {
            (name, size): one[name] / statistics.median(us)
            for (name, size), us in self.steps.items()
        }


@cache
def _least() -> float:
    """Return the efficiency below which accept refuses a fleet."""
    return float(load_shipped().defaults["fabric_training_efficiency"])


def physics(fleet: MadeUpFleet, condition: Condition, names: Sequence[str]) -> _Physics:
    """Return what a fleet in a condition does, with these nodes."""
    model = choose_model("nccl", (fleet.shape.memory_gib << 30) - (500 << 20))
    numbers = [fleet.number_of[name] for name in names]
    steps: dict[tuple[str, int], list[float]] = {}
    messages: dict[int, list[float]] = {}
    for size in node_counts(len(numbers)):
        teams = [
            _team(fleet, condition, numbers[at : at + size])
            for at in range(0, len(numbers) // size * size, size)
        ]
        found = _costs(condition, teams)
        messages[size] = [cost.us(_LARGE_BYTES) for cost in found]
        for strategy in STRATEGIES:
            work = dict(model.as_work(strategy))
            flops = training.flops_of(work)
            steps[strategy, size] = [
                training.step_of(condition, team, work, cost, flops).together
                for team, cost in zip(teams, found, strict=True)
            ]
    return _Physics(steps, messages)


def _team(fleet: MadeUpFleet, condition: Condition, nodes: Sequence[int]) -> Team:
    gpus = tuple(range(fleet.shape.gpus))
    if len(nodes) == 1:
        return Team(tuple(nodes), gpus, ((),))
    wanted = {n: condition.environment.get(n, {}).get("NCCL_IB_HCA", "") for n in nodes}
    rails = tuple(
        tuple(
            rail
            for rail in range(fleet.shape.rails)
            if not wanted[node] or f"mlx5_{rail}" in wanted[node].split(",")
        )
        for node in nodes
    )
    return Team(tuple(nodes), gpus, rails)


def _costs(condition: Condition, teams: Sequence[Team]) -> list[Cost]:
    names = [choose_algorithm(condition, team, "all_reduce") for team in teams]
    return costs(condition, teams, "all_reduce", names)[0]


def judge(kind: FaultKind | None, done: Acceptance) -> TrainingTrial:
    fleet, result = done.fleet, done.result
    left_out = {name for report in result.stages[:2] for name in report.left_out}
    names = [name for name in fleet.shape.names if name not in left_out]
    bad = physics(fleet, fleet.condition, names)
    good = physics(fleet, Condition(fleet.shape, fleet.condition.efficiency), names)
    touched = bool(left_out) or _is_touched(bad, good)
    points = result.details.get("training", {}).get("points", [])
    seen = {(p["strategy"], p["nodes"]): p["efficiency"] for p in points}
    own = bad.efficiencies()
    proven = [finding for finding in result.findings if finding.proven]
    guilty = {fleet.shape.names[node] for truth in fleet.truths for node in truth.nodes}
    accused = {name for finding in proven for name in finding.nodes}
    whole = any(truth.level == "fleet" for truth in fleet.truths)
    false = set() if whole else accused - guilty
    if kind is None:
        right = not result.findings
    else:
        named = is_named(fleet.truths, result.findings, fleet.shape.names)
        right = not false and (named or not touched)
    return TrainingTrial(
        kind.name if kind else HEALTHY,
        touched,
        seen.keys() == own.keys() and all(abs(seen[at] - own[at]) <= _NEAR for at in own),
        seen.keys() == own.keys() and all(_is_same_knee(seen, own, s) for s in STRATEGIES),
        right,
        len(false),
        done.rounds,
        fleet.seconds,
    )


def _is_touched(bad: _Physics, good: _Physics) -> bool:
    steps = any(
        max(us) > _TOUCHED * statistics.median(good.steps[at]) for at, us in bad.steps.items()
    )
    return steps or any(
        BAD_SHARE * max(us) > statistics.median(good.messages[size])
        for size, us in bad.messages.items()
    )


def _is_same_knee(seen: Efficiencies, own: Efficiencies, strategy: str) -> bool:
    """Return whether both fall below the floor at the same size, or so near that noise decides."""
    for size in sorted(size for name, size in own if name == strategy):
        low, true_low = (each[strategy, size] < _least() for each in (seen, own))
        if low and true_low:
            return True
        if low != true_low:
            return abs(own[strategy, size] - _least()) <= _NEAR
    return True
