"""How a replaced node is proven by a few witnesses, and what is said of a wrong part changed.

    python bench/replace.py [--trials 5] [--seed 0]

The gate of `rdmaprov replace` on made-up fleets (tests/madeup): the node and its witnesses, of a
cluster of any size. Each kind of fault that sits on one node is there still, as if another part
had been changed. In the table:

witnesses
    How many, and how many of them are under the node's own leaf. The default is 4, 2 of them.
named, found, false
    As bench/diagnosis.py has them: a finding names exactly the part; the node is not accepted and
    a finding names it; good nodes that proven findings name, in all trials.
minutes, harsh
    Of the gate for a node that is good, on both clocks of tests/madeup/clock.py.
node-hours, harsh
    Of the witnesses in that time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.madeup.accept import accept
from tests.madeup.faults import FaultKind, kinds
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.shape import NOISE, FleetShape
from tests.madeup.trials import Trial, judge, least_share

from rdmaprov.acceptance.stage_report import USUAL

_REPLACED = 0  # the number of the node
_ON_A_NODE = frozenset({"node", "rail", "rank"})
_MOST_SEEDS = 500


@dataclass(frozen=True)
class Beside:
    """Witnesses: how many, and how many nodes a leaf has, the replaced one included."""

    count: int
    per_leaf: int

    @property
    def shape(self) -> FleetShape:
        """Return the node and its witnesses as a fleet."""
        return FleetShape(1 + self.count, per_leaf=self.per_leaf)


USED = (Beside(4, 3), Beside(4, 2), Beside(4, 1), Beside(2, 3))


def seeds_of(kind: FaultKind, shape: FleetShape, start: int) -> Iterator[int]:
    """Yield seeds with which a kind's fault is on the replaced node alone."""
    for seed in range(start, start + _MOST_SEEDS):
        truths = MadeUpFleet(shape, kind, seed, NOISE).truths
        if truths and all(t.nodes == (_REPLACED,) and t.level in _ON_A_NODE for t in truths):
            yield seed


def trials_of(kind: FaultKind | None, beside: Beside, count: int, start: int) -> list[Trial]:
    """Return trials of a kind, or of good nodes; none if its faults are not a node's."""
    seeds = seeds_of(kind, beside.shape, start) if kind else iter(range(start, start + count))
    chosen = [seed for seed, _ in zip(seeds, range(count), strict=False)]
    name = kind.name if kind else "healthy"
    return [judge(name, accept(beside.shape, kind, seed, stages=USUAL)) for seed in chosen]


def row(beside: Beside, count: int, start: int = 0) -> tuple[str, list[str]]:
    """Return a row of the table, and the kinds that were not named each time."""
    healthy = trials_of(None, beside, count, start)
    bad = {kind.name: trials_of(kind, beside, count, start) for kind in kinds(held_out=True)}
    every = [trial for trials in bad.values() for trial in trials]
    named, found = sum(t.named for t in every), sum(t.found for t in every)
    usual, harsh = (max(sum(t.stages[s][c] for s in t.stages) for t in healthy) for c in (0, 1))
    cells = [
        f"{beside.count}, {min(beside.count, beside.per_leaf - 1)} of its leaf",
        f"{sum(t.accepted for t in healthy)} of {len(healthy)}",
        f"{named} of {len(every)} (≥ {100 * least_share(named, len(every)):.0f} %)",
        f"{found} of {len(every)}",
        str(sum(t.false for t in every)),
        *(f"{seconds / 60:.1f}" for seconds in (usual, harsh)),
        *(f"{beside.count * seconds / 3600:.2f}" for seconds in (usual, harsh)),
    ]
    missed = [name for name, own in bad.items() if not all(trial.named for trial in own)]
    return f"| {' | '.join(cells)} |", missed


HEAD = (
    "| witnesses | good ones accepted | named | found | false | minutes | harsh | node-hours "
    "| harsh |\n|---|---|---|---|---|---|---|---|---|"
)


@click.command()
@click.option("--trials", default=5, help="Of each kind.")
@click.option("--seed", default=0)
def main(trials: int, seed: int) -> None:
    """Print the table, and which kinds were not named."""
    click.echo(HEAD)
    notes = []
    for beside in USED:
        text, missed = row(beside, trials, seed)
        click.echo(text)
        notes.append(f"{beside.count} of {beside.per_leaf} a leaf: not always {', '.join(missed)}")
    click.echo("\n" + "\n".join(notes))


if __name__ == "__main__":
    main()
