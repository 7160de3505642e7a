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
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.madeup.faults import kinds
from tests.madeup.replaced import USED, Beside, trials_of
from tests.madeup.trials import least_share


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


def table(count: int, start: int = 0) -> tuple[str, list[str]]:
    """Return the table, and which kinds were not named each time."""
    rows, notes = [HEAD], []
    for beside in USED:
        text, missed = row(beside, count, start)
        rows.append(text)
        notes.append(f"{beside.count} of {beside.per_leaf} a leaf: not always {', '.join(missed)}")
    return "\n".join(rows), notes


@click.command()
@click.option("--trials", default=5, help="Of each kind.")
@click.option("--seed", default=0)
def main(trials: int, seed: int) -> None:
    """Print the table, and which kinds were not named."""
    text, notes = table(trials, seed)
    click.echo("\n".join([text, "", *notes]))


if __name__ == "__main__":
    main()
