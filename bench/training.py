"""How often the stage `training` is right, on made-up fleets with one fault each.

    python bench/training.py --nodes 16 --trials 10 --seed 0 [--fault KIND] [--json]

The fleets are those of tests/madeup, the faults those that touch a training step
(tests/madeup/training_faults.py). A trial is one fleet with one fault, and `accept` with the
stage training alone: no other stage has taken a node out before. In the table:

efficiency
    The share of trials in which each efficiency, of both strategies and all numbers of nodes, is
    within 0.03 of the fleet's own: its noiseless physics, computed apart from what is measured.
knee
    The share in which the number of nodes from which on the efficiency is below the floor is the
    fleet's own, for both strategies. Where the fleet's own efficiency is within 0.03 of the floor,
    both sides are right.
named
    The share in which a finding names exactly what is at fault, as bench/diagnosis.py has it, and
    no proven finding names a node that the fault is not on. A fault that touches neither is right
    if nobody is accused; of healthy fleets, if there is no finding at all.
touched
    The share of fleets in which the fault touches training at all: a step takes 3 % longer than
    without it, or an all-reduce of 1 GiB 1 / 0.9 times as long, in any group of any size. Eight
    rails hide half of one leaf's uplinks from a ring, and a backward pass a slow CPU.
rounds, seconds
    Tasks that were measured one after the other, and the made-up fleet's own clock.

The last line has all trials together, and the least that 95 % allow (Clopper and Pearson, 1934).
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.diagnosis import least_share, wanted_kinds
from bench.trials import HEALTHY, is_named
from tests.madeup import training
from tests.madeup.accept import Acceptance, accept
from tests.madeup.collectives import Cost, choose_algorithm, costs
from tests.madeup.condition import Condition
from tests.madeup.faults import FaultKind
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.flows import Team
from tests.madeup.shape import NOISE, usual_shape
from tests.madeup.training_faults import training_kinds

from rdmaprov.acceptance.jobs import node_counts
from rdmaprov.acceptance.training.model import STRATEGIES, choose_model
from rdmaprov.inventory.schema import load_shipped
from rdmaprov.isolation.compare import BAD_SHARE

STAGES = ("state", "preflight", "training")
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
    shape = fleet.shape
    model = choose_model("nccl", (shape.memory_gib << 30) - (500 << 20))
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
    """Return the trial that an acceptance was."""
    fleet, result = done.fleet, done.result
    left_out = {name for report in result.stages[:2] for name in report.left_out}
    names = [name for name in fleet.shape.names if name not in left_out]
    bad = physics(fleet, fleet.condition, names)
    good = physics(fleet, Condition(fleet.shape, fleet.condition.efficiency), names)
    touched = bool(left_out) or _is_touched(bad, good)
    points = result.training["points"] if result.training else []
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
    sizes = sorted(size for name, size in own if name == strategy)
    for size in sizes:
        low, true_low = (each[strategy, size] < _least() for each in (seen, own))
        if low and true_low:
            return True
        if low != true_low:
            return abs(own[strategy, size] - _least()) <= _NEAR
    return True


_COLUMNS = (
    "fault",
    "level",
    "trials",
    "touched",
    "efficiency",
    "knee",
    "named",
    "false",
    "rounds",
    "seconds",
)
HEAD = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}"


def row(kind: FaultKind | None, trials: Sequence[TrainingTrial]) -> str:
    """Return a kind's trials as a line of the table."""
    many = len(trials)
    shares = [
        f"{sum(getattr(each, name) for each in trials) / many:.0%}"
        for name in ("touched", "efficiency", "knee", "named")
    ]
    means = [
        sum(each.false for each in trials) / many,
        statistics.mean(each.rounds for each in trials),
        statistics.mean(each.seconds for each in trials),
    ]
    cells = [trials[0].kind, kind.level if kind else "", str(many), *shares]
    return f"| {' | '.join(cells)} | {means[0]:.2f} | {means[1]:.0f} | {means[2]:.0f} |"


def totals(trials: Sequence[TrainingTrial]) -> dict[str, tuple[float, float]]:
    """Return each share over all trials, with the least that 95 % allow."""
    found = {}
    for name in ("efficiency", "knee", "named"):
        hits = sum(getattr(each, name) for each in trials)
        found[name] = hits / len(trials), least_share(hits, len(trials))
    return found


def last_line(trials: Sequence[TrainingTrial]) -> str:
    """Return the totals as one line."""
    parts = [f"{n} {share:.3f} (above {least:.3f})" for n, (share, least) in totals(trials).items()]
    return f"{len(trials)} fleets: {', '.join(parts)}"


def measure(
    wanted: Sequence[FaultKind | None], nodes: int, seeds: range
) -> Iterator[tuple[FaultKind | None, list[TrainingTrial]]]:
    """Yield each kind with its trials; the same seed gives the same ones."""
    for kind in wanted:
        yield (
            kind,
            [
                judge(kind, accept(usual_shape(nodes), kind, seed, NOISE, stages=STAGES))
                for seed in seeds
            ],
        )


@click.command(help=__doc__.splitlines()[0])
@click.option("--nodes", type=click.IntRange(2), default=16, show_default=True)
@click.option("--trials", type=click.IntRange(1), default=10, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--fault", "faults", multiple=True, help="A kind; may be repeated.  [default: all]")
@click.option("--json", "as_json", is_flag=True, help="Print the trials as JSON.")
def main(nodes: int, trials: int, seed: int, faults: tuple[str, ...], as_json: bool) -> None:
    """Print the table."""
    wanted = wanted_kinds(training_kinds(), faults)
    found: list[TrainingTrial] = []
    if not as_json:
        click.echo(
            f"{nodes} nodes × 8 GPUs, {trials} trials of each kind from seed {seed}\n\n{HEAD}"
        )
    for kind, own in measure(wanted, nodes, range(seed, seed + trials)):
        found += own
        if not as_json:
            click.echo(row(kind, own))
    if as_json:
        data = {"trials": [asdict(each) for each in found], "totals": totals(found)}
        click.echo(json.dumps(data, indent=1))
    else:
        click.echo(f"\n{last_line(found)}")


if __name__ == "__main__":
    main()
