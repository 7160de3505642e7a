"""Strategies that find a bad node, side by side on the same made-up fabrics, with the same noise.

    python bench/arena.py [--nodes N]... [--trials T] [--seed S] [--kept FILE] [--cells]

The strategies are those of bench/strategies.py, each from its published description; a trial is a
fabric with faults, and each strategy measures it anew. Ten of twelve faults are a node's (a slot at
half, a rail of eight that is missing, tests that hang, in equal parts), one is a leaf's uplinks at
half, one a path at half between any two nodes. Of 419 interruptions of Llama 3's training, 35 were
switches and cables (arXiv 2407.21783). A fabric is rail-optimised, with leaves of 32 nodes and no
loss between them, or a plain fat tree with leaves of 16, where hashing slows each path between
leaves by up to 5 %: our choice. Leaves are a quarter of the nodes if that is less.

recall      the share of faults that are named: exactly their nodes; a leaf also by all its nodes.
precision   the share of accused nodes on which a fault is; an accused fabric counts as one.
false       good nodes that are accused, for each fleet.
minutes     of the whole fleet, on the usual clock of tests/madeup/clock.py, with one start.

What is first in a cell was fixed before the first run: of the strategies, those with the fewest
false accusations; of these, those that name the most faults; of these, the fastest. A strategy is
behind another one if, in the fleets in which the two differ, it is worse more often than a fair
coin would be in 95 % (sign test, two-sided); in minutes, if it takes 10 % more. Who is not behind
the best one shares the place.

A seed prints the same table again; with --kept, each trial is a line of a file, and one that is
there is not run again. The processor's time goes to standard error.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.kept import add_row, read_rows
from bench.strategies import STRATEGIES, Accused, Fabric

from rdmaprov.isolation.compare import upper_tail

SIZES, FAULTS, NOISES = (16, 64, 512, 1024), (1, 3, 6), (0.01, 0.03)
LEAVES = {"rail-optimised": (32, 0.0), "fat tree": (16, 0.05)}
_NODE = {"half a slot": 0.5, "a rail missing": 0.875, "hangs": 0.0}
_MIX = ("node",) * 10 + ("leaf", "pair")
Cell = tuple[int, int, float, str]


@dataclass(frozen=True)
class Result:
    """What a strategy made of a fabric."""

    faults: int
    named: int
    accused: int
    false: int
    rounds: int
    seconds: float


def make_fabric(cell: Cell, seed: int) -> tuple[Fabric, list[Accused]]:
    """Return a fabric, and what is at fault in it: parts without a node in common."""
    many, faults, noise, kind = cell
    chance = random.Random(f"{seed} {cell}")  # noqa: S311 - a fabric that can be made again
    size, spread = LEAVES[kind]
    leaf = np.arange(many) // max(2, min(size, many // 4))
    fabric = Fabric(
        np.ones(many), leaf, np.ones(leaf[-1] + 1), {}, spread, noise, chance.getrandbits(31)
    )
    truths: list[Accused] = []
    free = set(range(many))
    while len(truths) < faults:
        what = chance.choice(_MIX)
        nodes = chance.sample(range(many), 2 if what == "pair" else 1)
        if what == "leaf":
            nodes = np.flatnonzero(leaf == leaf[nodes[0]]).tolist()
        # Of one leaf only: with more, what is good is a matter of taste.
        if not free.issuperset(nodes) or (what == "leaf" and any(t.kind == "leaf" for t in truths)):
            continue
        free -= set(nodes)
        truths.append(Accused(what, frozenset(nodes)))
        if what == "node":
            fabric.nodes[nodes[0]] = _NODE[chance.choice(list(_NODE))]
        elif what == "leaf":
            fabric.uplinks[leaf[nodes[0]]] = 0.5
        else:
            fabric.paths[min(nodes), max(nodes)] = 0.5
    return fabric, truths


def judge(found: Sequence[Accused], truths: Sequence[Accused], fabric: Fabric) -> Result:
    """Return what the accusations are worth."""
    bad = frozenset().union(*(truth.nodes for truth in truths))
    single = frozenset().union(*(each.nodes for each in found if each.kind == "node"))
    exact = {each.nodes for each in found}
    named = sum(t.nodes in exact or (t.kind == "leaf" and t.nodes <= single) for t in truths)
    fabrics = sum(each.kind == "fabric" for each in found)
    accused = frozenset().union(*(each.nodes for each in found if each.kind != "fabric"))
    false = len(accused - bad) + fabrics
    return Result(
        len(truths), named, len(accused) + fabrics, false, fabric.rounds, round(fabric.seconds, 3)
    )


class KeptResults:
    """Results of this run and of earlier ones, a line of JSON each."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._known = {tuple(at): Result(*row) for at, row in read_rows(file)}

    def get(self, cell: Cell, seed: int, name: str) -> Result:
        """Return a strategy's result, by a fabric of its own the first time."""
        at = (*cell, seed, name)
        if at not in self._known:
            fabric, truths = make_fabric(cell, seed)
            found = self._known[at] = judge(STRATEGIES[name](fabric), truths, fabric)
            add_row(self._file, [at, list(vars(found).values())])
        return self._known[at]


Own = Mapping[str, Sequence[Result]]


def _is_behind(own: Sequence[int], best: Sequence[int]) -> bool:
    """Return whether one is worse than another by a sign test; more is worse."""
    worse = sum(a > b for a, b in zip(own, best, strict=True))
    better = sum(a < b for a, b in zip(own, best, strict=True))
    return worse > better and 2 * upper_tail(worse, worse + better, 0.5) < 0.05


def _false(result: Result) -> int:
    return result.false


def _missed(result: Result) -> int:
    return result.faults - result.named


def first(own: Own) -> list[str]:
    """Return who is first in a cell, as the module says."""
    left = list(own)
    for cost in (_false, _missed):
        costs = {name: [cost(each) for each in own[name]] for name in left}
        sums = {name: sum(costs[name]) for name in left}
        best = min(sums, key=sums.__getitem__)
        left = [name for name in left if not _is_behind(costs[name], costs[best])]
    minutes = {name: sum(each.seconds for each in own[name]) for name in left}
    return [name for name in left if minutes[name] <= 1.1 * min(minutes.values())]


def summary(results: Sequence[Result]) -> str:
    """Return recall, precision, false accusations, rounds and minutes as columns."""
    named, faults, accused, false = (
        sum(getattr(each, name) for each in results)
        for name in ("named", "faults", "accused", "false")
    )
    precision = f"{(accused - false) / accused:.3f}" if accused else "-"
    rounds, seconds = (
        sum(getattr(each, name) for each in results) / len(results)
        for name in ("rounds", "seconds")
    )
    shares = f"{named / faults:.3f} | {precision} | {false / len(results):.2f}"
    return f"{shares} | {rounds:,.1f} | {seconds / 60:,.1f}"


_COLUMNS = "recall | precision | false | rounds | minutes |"


def print_tables(done: Mapping[Cell, Own], *, cells: bool) -> None:
    """Print what each strategy reached at each size, and the cells; see the module."""
    winners = {cell: first(own) for cell, own in done.items()}
    click.echo(
        f"| nodes | strategy | first of cells | {_COLUMNS}\n|---|---|---|---|---|---|---|---|"
    )
    for size in dict.fromkeys(cell[0] for cell in done):
        alike = [cell for cell in done if cell[0] == size]
        for name in STRATEGIES:
            results = [each for cell in alike for each in done[cell][name]]
            wins = sum(name in winners[cell] for cell in alike)
            click.echo(f"| {size:,} | {name} | {wins} of {len(alike)} | {summary(results)} |")
    wins = sum("rdmaprov" in names for names in winners.values())
    click.echo(f"\nrdmaprov is first, or shares it, in {wins} of {len(done)} cells. Not in:\n")
    click.echo("| nodes | faults | noise | fabric | first |\n|---|---|---|---|---|")
    for (size, faults, noise, kind), names in winners.items():
        if "rdmaprov" not in names:
            click.echo(f"| {size:,} | {faults} | {noise:.0%} | {kind} | {', '.join(names)} |")
    if not cells:
        return
    click.echo(f"\n| nodes | faults | noise | fabric | strategy | {_COLUMNS}")
    click.echo("|---|---|---|---|---|---|---|---|---|---|")
    for (size, faults, noise, kind), own in done.items():
        for name, ran in own.items():
            mark = " *" if name in winners[size, faults, noise, kind] else ""
            at = f"{size:,} | {faults} | {noise:.0%} | {kind} | {name}{mark}"
            click.echo(f"| {at} | {summary(ran)} |")


@click.command(help="Print how strategies that find a bad node do beside each other.")
@click.option("--nodes", "sizes", multiple=True, type=click.IntRange(8), help="May be repeated.")
@click.option("--trials", default=20, show_default=True, help="Fabrics of each cell.")
@click.option("--seed", default=0, show_default=True, help="Of the first fabric of each cell.")
@click.option("--kept", type=click.Path(dir_okay=False, path_type=Path), help="Go on after these.")
@click.option("--cells", is_flag=True, help="Also print each cell; * is first.")
def main(sizes: tuple[int, ...], trials: int, seed: int, kept: Path | None, cells: bool) -> None:
    """Print the tables."""
    began = time.process_time()
    results = KeptResults(kept)
    done: dict[Cell, Own] = {}
    for cell in product(sizes or SIZES, FAULTS, NOISES, LEAVES):
        seeds = range(seed, seed + trials)
        done[cell] = {name: [results.get(cell, s, name) for s in seeds] for name in STRATEGIES}
    print_tables(done, cells=cells)
    click.echo(f"{time.process_time() - began:.0f} s of processor", err=True)


if __name__ == "__main__":
    main()
