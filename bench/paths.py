"""How often tests of single paths name what is at fault, on made-up fleets with one fault each.

    python bench/paths.py --nodes 512 --trials 3 --seed 0 [--fault KIND] [--json]

Fleets, faults and columns are those of bench/diagnosis.py; what is measured is single paths over
RDMA, by acceptance/stages/pair_paths.py, and no collective. Faults that a path cannot show (of
GPUs, processes and NCCL's settings) are left out. The fabric's time is that of the made-up clock:
rounds × seconds of a test, with perftest's start and end.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.diagnosis import print_scores, wanted_kinds
from tests.madeup.accept import Acceptance
from tests.madeup.faults import FaultKind, kinds
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.paths import SHOWN, MadeUpPaths
from tests.madeup.shape import NOISE, FleetShape, usual_shape
from tests.madeup.site import site_nodes
from tests.madeup.trials import HEALTHY, Trial, judge

from rdmaprov.acceptance.paths.plan import PathOptions
from rdmaprov.acceptance.stages.pair_paths import run_paths


def run_trial(
    shape: FleetShape, kind: FaultKind | None, seed: int, noise: float, options: PathOptions
) -> Trial:
    """Return what came of one fleet."""
    fleet = MadeUpFleet(shape, kind, seed, noise)
    measurer = MadeUpPaths(fleet)
    stage = run_paths(site_nodes(shape), measurer, options).stage
    verdict = {"passed": "accepted", "failed": "refused"}.get(stage.state, stage.state)
    result = SimpleNamespace(verdict=verdict, findings=stage.findings)
    done = SimpleNamespace(fleet=fleet, result=result, rounds=measurer.rounds, said=[])
    return judge(kind.name if kind else HEALTHY, cast("Acceptance", done))


def measure(
    wanted: Sequence[FaultKind | None],
    shape: FleetShape,
    trials: int,
    seed: int,
    noise: float,
    options: PathOptions,
) -> Iterator[tuple[FaultKind | None, list[Trial]]]:
    """Yield each kind with its trials; the same seed gives the same ones."""
    for kind in wanted:
        yield kind, [run_trial(shape, kind, seed + n, noise, options) for n in range(trials)]


@click.command(help="Print how often tests of single paths name what is at fault.")
@click.option("--nodes", default=64, show_default=True, help="Nodes of each fleet.")
@click.option("--trials", default=3, show_default=True, help="Fleets of each kind.")
@click.option("--seed", default=0, show_default=True, help="Of the first trial.")
@click.option("--noise", default=NOISE, show_default=True, help="Standard deviation of a rate.")
@click.option("--all-pairs", is_flag=True, help="Test all pairs, in n - 1 rounds.")
@click.option("--fault", "names", multiple=True, help="One kind; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
def main(
    nodes: int,
    trials: int,
    seed: int,
    noise: float,
    all_pairs: bool,
    names: tuple[str, ...],
    as_json: bool,
) -> None:
    """Print the scores."""
    shape = usual_shape(nodes)
    shown = [kind for kind in kinds(held_out=True) if kind.name in SHOWN]
    options = PathOptions(matchings=0) if all_pairs else PathOptions()
    measured = measure(wanted_kinds(shown, names), shape, trials, seed, noise, options)
    fleets = f"{nodes} nodes × {shape.rails} rails, {noise:.1%} noise"
    print_scores(measured, fleets, as_json=as_json)


if __name__ == "__main__":
    main()
