"""How often the stage `scaling` names the right knee, on made-up fleets with one fault each.

    python bench/scaling.py --nodes 16 --trials 10 --seed 0 [--fault KIND]

prints the table of docs/scaling.md. The fleets and faults are those of bench/diagnosis.py. Only
state, preflight and scaling run, so nothing has taken out a bad node before.

knee
    The share of trials with a knee at the first count of nodes that spans two leaves, resting on
    the leaves or on oversubscription. Right for faults of uplinks and spines, wrong for all others.
other
    The share with any other knee: always wrong.

Recall is the share of the fleets with a fault of uplinks or spines whose knee is right; precision
the share of all knees that are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.diagnosis import wanted_kinds
from tests.madeup.accept import accept
from tests.madeup.faults import FaultKind, kinds
from tests.madeup.shape import NOISE, usual_shape
from tests.madeup.trials import HEALTHY, least_share

from rdmaprov.acceptance.stages.scaling_view import counts
from rdmaprov.isolation.scaling import KneeCause

# What slows data down only where it crosses leaves.
WITH_KNEE = ("leaf-uplinks", "spine-uneven", "hash-collisions", "half-spines")
# A node under another leaf than its own overloads that leaf's uplinks: a knee is no error.
EITHER = ("wrong-leaf",)
_STAGES = ("state", "preflight", "scaling")
_OF_LEAVES = (KneeCause.LEAVES, KneeCause.OVERSUBSCRIPTION)


@dataclass(frozen=True)
class KneeTrial:
    """What came of one fleet: the knee's count (0: none), and whether it is at the leaves."""

    kind: str
    nodes: int
    at_leaves: bool

    @property
    def is_right(self) -> bool:
        """Return whether this is what the fleet has."""
        if self.kind in EITHER:
            return self.nodes == 0 or self.at_leaves
        return self.at_leaves if self.kind in WITH_KNEE else self.nodes == 0


def trial(kind: FaultKind | None, nodes: int, seed: int, noise: float) -> KneeTrial:
    """Return what the stage says of one fleet."""
    shape = usual_shape(nodes)
    done = accept(shape, kind, seed, noise, stages=_STAGES)
    planes = done.result.details.get("scaling", {}).get("planes", [])
    knee = next((plane["knee"] for plane in planes if plane["knee"]), None)
    name = kind.name if kind else HEALTHY
    if knee is None:
        return KneeTrial(name, 0, at_leaves=False)
    crossing = next((n for n in counts(nodes) if n > shape.per_leaf), 0)
    at_leaves = knee["nodes"] == crossing and knee["cause"] in _OF_LEAVES
    return KneeTrial(name, knee["nodes"], at_leaves)


def table(
    wanted: Sequence[FaultKind | None], nodes: int, seeds: range, noise: float
) -> Iterator[str]:
    """Yield the rows, and the totals."""
    yield "| fault | trials | knee at the leaves | other knee | right |"
    yield "|---|---|---|---|---|"
    done: list[KneeTrial] = []
    for kind in wanted:
        own = [trial(kind, nodes, seed, noise) for seed in seeds]
        done += own
        at_leaves = sum(each.at_leaves for each in own) / len(own)
        other = sum(each.nodes > 0 and not each.at_leaves for each in own) / len(own)
        right = sum(each.is_right for each in own) / len(own)
        yield f"| {own[0].kind} | {len(own)} | {at_leaves:.0%} | {other:.0%} | {right:.0%} |"
    yield ""
    yield totals(done, f"{nodes} nodes × {usual_shape(nodes).gpus}, {noise:.1%} noise")


def totals(done: Sequence[KneeTrial], fleets: str) -> str:
    """Return recall and precision as one line."""
    due = [each.is_right for each in done if each.kind in WITH_KNEE]
    named = [each.is_right for each in done if each.nodes]
    said = [_share(name, hits) for name, hits in (("recall", due), ("precision", named)) if hits]
    right = sum(each.is_right for each in done) / len(done)
    return f"{fleets}: {', '.join([*said, f'right {right:.3f} of {len(done)}'])}"


def _share(name: str, hits: Sequence[bool]) -> str:
    least = least_share(sum(hits), len(hits))
    return f"{name} {sum(hits) / len(hits):.3f} of {len(hits)} (above {least:.3f})"


@click.command(help="Print how often the stage scaling names the right knee.")
@click.option("--nodes", default=16, show_default=True, help="Nodes of each fleet.")
@click.option("--trials", default=3, show_default=True, help="Fleets of each kind.")
@click.option("--seed", default=0, show_default=True, help="Of the first trial.")
@click.option("--noise", default=NOISE, show_default=True, help="Standard deviation of a time.")
@click.option("--fault", "names", multiple=True, help="One kind; may be repeated.")
def main(nodes: int, trials: int, seed: int, noise: float, names: tuple[str, ...]) -> None:
    """Print the scores."""
    for line in table(
        wanted_kinds(kinds(held_out=True), names), nodes, range(seed, seed + trials), noise
    ):
        click.echo(line)


if __name__ == "__main__":
    main()
