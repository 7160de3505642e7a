"""How often the gate's diagnosis is right, on made-up fleets with one fault each.

    python bench/diagnosis.py --nodes 16 --trials 10 --seed 0 [--fault KIND] [--held-out] [--json]
        [--kept FILE] [--minutes M] [--gpu]

The fleets are those of tests/madeup: from physics, and without regard to what a diagnosis reads.
A trial is one fleet with one fault, from the first question to the report. In the table:

found
    The share of trials in which the gate does not accept the fleet, and a finding names a node
    that the fault is on: one end of a path counts, and one node of a leaf. A fault of the whole
    fleet is found if the fleet is not accepted.
named
    The share in which a finding names exactly what is at fault: the level (node, rank, rail,
    pair, leaf, fleet), all its nodes, and the rail if it is one rail's fault. Where nothing that
    can be measured tells two things apart, such as a node and its only slow GPU, both are right;
    the registry of faults says so for each kind, before the trial.
false
    The number of nodes for each trial that a proven finding names, and the fault is not on. A
    finding that says of itself that it is not known to be true is no accusation. One that names
    the whole fleet accuses one thing, the fabric, whatever nodes it lists.
rounds, seconds
    Collectives that were measured one after the other, and the made-up fleet's own clock.

A second table has the seconds of each stage, of healthy fleets and of the others, on the usual
clock and on a harsh one (tests/madeup/clock.py): the same run, priced twice. The
last line has the kinds that took longest to be named, in seconds since the ranks of the stage that
names them began to start: since its begin, where it has none of its own.

Recall is the share of all trials with a fault that are `named`. Precision is the share of the
nodes that proven findings name on which the fault is. `accepted` is of healthy fleets. Behind
recall and accepted is the least that 95 % allow (Clopper and Pearson, 1934).

With --gpu, the faults are those of GPUs by themselves (tests/madeup/gpus.py), and the stage gpu is
the last one: a healthy fleet, or one of two models, is accepted if nothing is found. Of healthy
ones there are at least 100 then: a false alarm costs a good node.

With --kept, each trial is a line of a file as it ends, and one that is there is not run again: a
table that takes hours can be made in pieces. With --minutes, no trial begins after as many, the
kinds take turns, and the table is of what is there; --minutes 0 prints what is kept.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.madeup.clock import CLOCKS
from tests.madeup.faults import FaultKind, kinds
from tests.madeup.gpus import GPU_FAULTS
from tests.madeup.shape import NOISE, usual_shape
from tests.madeup.trials import HEALTHY, KeptTrials, Trial, by_stage, least_share, measure, total

from rdmaprov.acceptance.stage_report import TABLE, USUAL

_HEALTHY = 100  # fleets, with --gpu
_LATEST = 4


@dataclass(frozen=True)
class Score:
    """The trials of a kind as shares and means."""

    kind: str
    level: str
    trials: int
    accepted: float
    found: float
    named: float
    false: float
    rounds: float
    seconds: float
    held_out: bool = False
    same_as: str = ""


def score(trials: Sequence[Trial], kind: FaultKind | None) -> Score:
    """Return the score of a kind's trials; None: of healthy fleets."""
    many = len(trials)
    return Score(
        kind.name if kind else HEALTHY,
        kind.level if kind else "",
        many,
        sum(each.accepted for each in trials) / many,
        sum(each.found for each in trials) / many,
        sum(each.named for each in trials) / many,
        sum(each.false for each in trials) / many,
        sum(each.rounds for each in trials) / many,
        sum(each.seconds for each in trials) / many,
        bool(kind and kind.held_out),
        kind.same_as if kind else "",
    )


def last_line(trials: Sequence[Trial]) -> str:
    """Return the totals as one line."""
    said = [f"{name} {share:.3f}" for name, share in total(trials).items()]
    bad = [each.named for each in trials if not each.kind.startswith(HEALTHY)]
    good = [each.accepted for each in trials if each.kind.startswith(HEALTHY)]
    for name, hits in (("recall", bad), ("accepted", good)):
        if hits:
            least = f"{name} of {len(hits)} fleets above {least_share(sum(hits), len(hits)):.4f}"
            said.append(least)
    return ", ".join(said)


HEAD = (
    "| fault | level | trials | found | named | false | rounds | seconds | same as |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def row(score: Score) -> str:
    """Return a score as a line of the table."""
    name = f"{score.kind} (held out)" if score.held_out else score.kind
    shares = f"{score.found:.0%} | {score.named:.0%}"
    if score.kind.startswith(HEALTHY):
        shares = f"{score.accepted:.1%} accepted | "
    return (
        f"| {name} | {score.level} | {score.trials} | {shares} | {score.false:.2f} | "
        f"{score.rounds:.1f} | {score.seconds:.0f} | {score.same_as} |"
    )


def wanted_kinds(known: Iterable[FaultKind], names: Sequence[str]) -> list[FaultKind | None]:
    """Return the kinds of these names, None for healthy fleets; all of them without a name.

    Raises:
        click.UsageError: there is no such kind.
    """
    found: dict[str, FaultKind | None] = {HEALTHY: None, **{kind.name: kind for kind in known}}
    for name in names:
        if name not in found:
            raise click.UsageError(f"--fault {name}: not one of {', '.join(found)}")
    return [found[name] for name in names or found]


def print_scores(
    measured: Iterable[tuple[FaultKind | None, list[Trial]]], fleets: str, *, as_json: bool
) -> None:
    """Print the score of each kind as it is measured, and the totals of these fleets."""
    done, scores = [], []
    click.echo(HEAD, err=as_json)
    for kind, own in measured:
        done += own
        scores.append(score(own, kind))
        click.echo(row(scores[-1]), err=as_json)
    if as_json:
        whole = {"scores": [asdict(each) for each in scores], "total": total(done)}
        click.echo(json.dumps(whole))
    else:
        click.echo(f"\n{fleets}: {last_line(done)}")
        click.echo(stage_table(done) + slowest_line(done), nl=False)


def slowest_line(trials: Sequence[Trial]) -> str:
    """Return which kinds are named last after their ranks' start; empty where none is known."""
    most: dict[str, float] = {}
    for each in sorted(trials, key=lambda trial: -trial.named_s):
        if each.named_s:
            most.setdefault(each.kind, each.named_s)
    said = [f"{kind} {seconds:.0f} s" for kind, seconds in list(most.items())[:_LATEST]]
    return f"\nnamed last after the ranks' start: {', '.join(said)}\n" if said else ""


def stage_table(trials: Sequence[Trial]) -> str:
    """Return the mean seconds of each stage; empty where no trial has them."""
    good, bad = ([t for t in trials if t.kind.startswith(HEALTHY) is it] for it in (True, False))
    parts = [by_stage(good), by_stage(bad)]
    names = [name for name in (*TABLE, "end") if any(name in part for part in parts)]
    none = [0.0] * len(CLOCKS)
    rows = [[s for part in parts for s in part.get(name, none)] for name in names]
    if not rows:
        return ""
    sums = [sum(column) for column in zip(*rows, strict=True)]
    lines = ["", "| stage | healthy, usual | harsh | with a fault, usual | harsh |"]
    lines.append("|---|---|---|---|---|")
    for name, row in zip([*names, "sum"], [*rows, sums], strict=True):
        lines.append(f"| {name} | " + " | ".join(f"{seconds:.0f}" for seconds in row) + " |")
    return "\n".join(lines) + "\n"


@click.command(help="Print how often the gate's diagnosis is right.")
@click.option("--nodes", default=16, show_default=True, help="Nodes of each fleet.")
@click.option("--trials", default=3, show_default=True, help="Fleets of each kind.")
@click.option("--seed", default=0, show_default=True, help="Of the first trial.")
@click.option("--noise", default=NOISE, show_default=True, help="Standard deviation of a time.")
@click.option("--fault", "names", multiple=True, help="One kind; may be repeated.")
@click.option("--held-out", is_flag=True, help="Also the kinds that are kept for the test.")
@click.option("--kept", type=click.Path(dir_okay=False, path_type=Path), help="Go on after these.")
@click.option("--minutes", type=float, help="Begin no trial after these; kinds take turns.")
@click.option("--gpu", is_flag=True, help="The faults of GPUs by themselves; the stage gpu alone.")
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
def main(
    nodes: int,
    trials: int,
    seed: int,
    noise: float,
    names: tuple[str, ...],
    held_out: bool,
    kept: Path | None,
    minutes: float | None,
    gpu: bool,
    as_json: bool,
) -> None:
    """Print the scores."""
    known = GPU_FAULTS.values() if gpu else kinds(held_out or bool(names))
    wanted = wanted_kinds(known, names)
    seeds = range(seed, seed + trials)
    trials_kept = KeptTrials(kept, ("state", "preflight", "gpu") if gpu else USUAL)
    healthy = range(seed, seed + max(trials, _HEALTHY)) if gpu else seeds
    parts = ((healthy, [None] * (None in wanted)), (seeds, [k for k in wanted if k is not None]))
    until = None if minutes is None else time.monotonic() + 60 * minutes
    measured = chain(*(measure(some, nodes, own, noise, trials_kept, until) for own, some in parts))
    fleets = f"{nodes} nodes × {usual_shape(nodes).gpus}, {noise:.1%} noise"
    print_scores(measured, fleets, as_json=as_json)


if __name__ == "__main__":
    main()
