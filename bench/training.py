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
from dataclasses import asdict
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.diagnosis import wanted_kinds
from tests.madeup.accept import accept
from tests.madeup.faults import FaultKind
from tests.madeup.shape import NOISE, usual_shape
from tests.madeup.training_faults import training_kinds
from tests.madeup.training_trials import TrainingTrial, judge
from tests.madeup.trials import least_share

STAGES = ("state", "preflight", "training")
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
