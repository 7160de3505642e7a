"""How a fleet that arrives rack by rack is accepted, with faulty nodes in its racks.

    python bench/rack.py --nodes 64 --days 14 [--seed 0] [--kept FILE]

A day is one made-up fleet (tests/madeup) whose racks, one leaf each, are powered on at
times that chance chooses in 24 hours; 7 to 12 % of the nodes have one of the faults of
bench/diagnosis.py that sit on a node. Each rack goes through the real gate as it is ready, again
without the nodes that the gate names until it is accepted; at the end, all accepted nodes are
joined. The site is locked while a gate runs, so racks that come together wait for each other. In
the table, for the usual clock and the harsh one of tests/madeup/clock.py:

faulty nodes named
    A finding names the node before the racks are joined or then, and the whole is without it.
good nodes left out
    They are not in the whole that is accepted.
accepted within 30 min
    Of the good nodes, by themselves with their rack, from its power-on.
slowest rack, whole
    From power-on until the rack is accepted; from the last power-on until the whole is.
the gates that join
    Of it, the gates over all racks, which take what the racks' runs proved. Below is one gate of
    the same nodes that knows of no run.

With --kept, each day is a line of a file as it ends, and one that is there is not run again. A day
of 64 nodes takes 7 s of a processor.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.kept import add_row, read_rows
from tests.madeup.accept import Acceptance, accept_nodes
from tests.madeup.clock import CLOCKS
from tests.madeup.condition import Condition
from tests.madeup.faults import FaultKind, Truth, kinds
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.shape import NOISE, FleetShape, usual_shape
from tests.madeup.trials import least_share

from rdmaprov.acceptance.ledger import KeptProof, proofs_of
from rdmaprov.acceptance.stage_report import USUAL
from rdmaprov.cli.accept_run import document
from rdmaprov.runs.envelope import Head

SHARES = (0.07, 0.12)  # of the nodes that are faulty: what the fleets of others had as they came
DAY_S = 24 * 3600.0
# From power-on until a rack's validate has passed: self-tests and boot of servers with eight GPUs,
# apply, a reboot, validate. Our choice; a site has its own.
READY_S = 15 * 60.0
IN_TIME_S = 30 * 60.0
_MOST_GATES = 5
_ON_A_NODE = frozenset({"node", "rail", "rank"})
_MOST_SEEDS = 200
_BEGAN = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Day:
    """What came of a day.

    Args:
        faulty: how many nodes are.
        named: how many of them a finding names, and the whole was accepted without.
        missed: the kinds of the others.
        refused: good nodes that are not in the whole.
        gates: how many ran.
        accepted: whether the whole was, at the end.
        in_time: good nodes that were accepted with their rack within IN_TIME_S, by CLOCKS.
        rack_s: the longest from a rack's power-on until it was accepted, by CLOCKS.
        whole_s: from the last power-on until the whole was accepted, by CLOCKS.
        join_s: what the gates over all racks took, by CLOCKS.
        single_s: what a gate of the same nodes takes that knows of no kept run, by CLOCKS.
    """

    seed: int
    nodes: int
    faulty: int
    named: int
    missed: list[str]
    refused: int
    gates: int
    accepted: bool
    in_time: list[int]
    rack_s: list[float]
    whole_s: list[float]
    join_s: list[float]
    single_s: list[float]


def days_of(nodes: int, seeds: range, file: Path | None = None) -> list[Day]:
    """Return the days of some seeds; those that a file has, a line of JSON each, are not run."""
    known = {(row["nodes"], row["seed"]): Day(**row) for row in read_rows(file)}
    found = []
    for seed in seeds:
        day = known.get((nodes, seed))
        if day is None:
            day = day_of(nodes, seed)
            add_row(file, asdict(day))
        found.append(day)
    return found


def day_of(nodes: int, seed: int) -> Day:
    """Return what came of a fleet's day; the same seed gives the same one."""
    return _Arrival(usual_shape(nodes), seed).run()


class _Picks(random.Random):
    """Chance by which each node that is picked is the same one."""

    def __init__(self, seed: str, node: int, nodes: int) -> None:
        super().__init__(seed)
        self._node, self._nodes = node, nodes

    def randrange(self, start: int, *more: int) -> int:  # type: ignore[override]
        return self._node if start == self._nodes and not more else super().randrange(start, *more)


def node_faults(shape: FleetShape, seed: int) -> dict[int, tuple[FaultKind, str]]:
    """Return the nodes that are faulty, each with its kind and the seed of its chance."""
    chance = random.Random(f"racks {seed} {shape.nodes}")  # noqa: S311 - repeatable
    count = max(1, round(chance.uniform(*SHARES) * shape.nodes))
    known, found = list(kinds(held_out=True)), dict[int, tuple[FaultKind, str]]()
    for node in chance.sample(range(shape.nodes), count):
        for attempt in range(_MOST_SEEDS):
            kind, at = chance.choice(known), f"{seed} {node} {attempt}"
            condition = Condition(shape, 0.9)
            truths = kind.breaks(condition, _Picks(at, node, shape.nodes))
            alone = all(t.nodes == (node,) and t.level in _ON_A_NODE for t in truths)
            # A fleet has one state without what comes and goes.
            at_times = condition.sound is not None
            if truths and alone and not (at_times and any(k is kind for k, _ in found.values())):
                found[node] = kind, at
                break
    return found


def _break(condition: Condition, faults: dict[int, tuple[FaultKind, str]]) -> Iterator[Truth]:
    """Break nodes, and last the one whose fault comes and goes."""
    nodes = condition.shape.nodes
    for last in (False, True):
        for node, (kind, at) in faults.items():
            if (kind.name == "intermittent") is last:
                yield kind.breaks(condition, _Picks(at, node, nodes))[0]


@dataclass
class _Arrival:
    shape: FleetShape
    seed: int
    gates: int = 0
    named: set[str] = field(default_factory=set)
    proofs: dict[str, KeptProof] = field(default_factory=dict)

    def run(self) -> Day:
        shape = self.shape
        self.fleet = MadeUpFleet(shape, None, self.seed, NOISE)
        faults = node_faults(shape, self.seed)
        self.fleet.truths = tuple(_break(self.fleet.condition, faults))
        bad = {shape.names[node]: kind.name for node, (kind, _) in faults.items()}
        chance = random.Random(f"arrivals {self.seed} {shape.nodes}")  # noqa: S311 - repeatable
        times = sorted(chance.uniform(0, DAY_S) for _ in range(shape.blocks))
        free = [0.0 for _ in CLOCKS]  # the site is locked while a gate runs
        accepted: list[str] = []
        in_time, rack_s = [0 for _ in CLOCKS], [0.0 for _ in CLOCKS]
        for rack, power_on in enumerate(times):
            names = [n for at, n in enumerate(shape.names) if shape.block_of(at) == rack]
            left, seconds, _ = self._accept(names)
            free = [max(at, power_on + READY_S) + s for at, s in zip(free, seconds, strict=True)]
            accepted += left
            took = [at - power_on for at in free]
            good = len(set(left) - bad.keys())
            in_time = [n + good * (s <= IN_TIME_S) for n, s in zip(in_time, took, strict=True)]
            rack_s = [max(pair) for pair in zip(rack_s, took, strict=True)]
        left, join_s, is_accepted = self._accept(accepted)
        whole = [at + s - times[-1] for at, s in zip(free, join_s, strict=True)]
        self.proofs = {}
        gates, named = self.gates, set(self.named)
        single = self._gate(left)[1] if left else [0.0 for _ in CLOCKS]
        missed = [kind for name, kind in bad.items() if name not in named or name in left]
        refused = shape.nodes - len(bad) - len(set(left) - bad.keys())
        counts = len(bad), len(bad) - len(missed), sorted(missed), refused, gates
        return Day(
            self.seed, shape.nodes, *counts, is_accepted, in_time, rack_s, whole, join_s, single
        )

    def _accept(self, names: Sequence[str]) -> tuple[list[str], list[float], bool]:
        """Run gates as an operator would, each without the nodes that the last one names.

        Return the nodes of the last one if it accepts them, none else; and the seconds of all.
        """
        left, spent = list(names), [0.0 for _ in CLOCKS]
        for _ in range(_MOST_GATES):
            if len(left) < 2:
                break
            done, seconds = self._gate(left)
            spent = [sum(pair) for pair in zip(spent, seconds, strict=True)]
            if done.result.verdict == "accepted":
                return left, spent, True
            out = named_by(done)
            self.named |= out
            left = [name for name in left if name not in out]
        return [], spent, False

    def _gate(self, names: Collection[str]) -> tuple[Acceptance, list[float]]:
        self.gates += 1
        self.fleet.stages.clear()
        done = accept_nodes(self.fleet, names, proofs=self.proofs, stages=USUAL)
        now = _BEGAN + timedelta(seconds=self.gates)
        data = document(Head("accept", Path("site"), None, now), now, done.result)
        run = f"{now.astimezone():%Y%m%d-%H%M%S}-accept"
        self.proofs.update(proofs_of(run, data, _BEGAN))
        return done, [sum(own) for own in zip(*self.fleet.stages.values(), strict=True)]


def named_by(done: Acceptance) -> set[str]:
    """Return the nodes that a gate leaves out, or that a finding about a few of them names."""
    found = {name for stage in done.result.stages for name in stage.left_out}
    for each in done.result.findings:
        if each.level not in ("leaf", "fleet"):
            found |= {*each.nodes[:1]} if found.isdisjoint(each.nodes) else set()
    return found


def table(nodes: int, days: int, seed: int = 0, kept: Path | None = None) -> str:
    """Return the table of some days, and what was missed."""
    done = days_of(nodes, range(seed, seed + days), kept)
    return f"{_table(done)}\n\n{_last_line(done)}"


def _table(days: Sequence[Day]) -> str:
    head = f"| {days[0].nodes} nodes, {len(days)} days | usual | harsh |\n|---|---|---|"
    return "\n".join([head, *(f"| {what} | {u} | {h} |" for what, u, h in _rows(days))])


def _rows(days: Sequence[Day]) -> Iterator[tuple[str, str, str]]:
    named, faulty = (sum(getattr(day, name) for day in days) for name in ("named", "faulty"))
    good = sum(day.nodes - day.faulty for day in days)
    out = sum(day.refused for day in days)
    share = f"{named} of {faulty} (≥ {100 * least_share(named, faulty):.0f} %)"
    yield "faulty nodes named", share, ""
    yield "good nodes left out", f"{out} of {good}", ""
    yield "whole accepted", f"{sum(day.accepted for day in days)} of {len(days)}", ""
    usual, harsh = (f"{100 * sum(day.in_time[c] for day in days) / good:.1f} %" for c in (0, 1))
    yield "accepted within 30 min of power-on", usual, harsh
    for what, key, unit in (
        ("slowest rack, min", "rack_s", 60),
        ("whole, after the last power-on, min: most", "whole_s", 60),
        ("of it the gates that join, s: most", "join_s", 1),
        ("a gate that measures all again, s: most", "single_s", 1),
    ):
        most = [max(getattr(day, key)[c] for day in days) / unit for c in (0, 1)]
        usual, harsh = (f"{each:.{int(unit > 1)}f}" for each in most)
        yield what, usual, harsh


def _last_line(days: Sequence[Day]) -> str:
    """Return which kinds were missed, and how many gates ran."""
    missed = sorted({kind for day in days for kind in day.missed})
    gates = sum(day.gates for day in days)
    return f"{gates} gates; faults that were not named: {', '.join(missed) or 'none'}"


@click.command(help="Print how a fleet that arrives rack by rack is accepted.")
@click.option("--nodes", default=64, show_default=True, help="Of each fleet.")
@click.option("--days", default=14, show_default=True, help="Fleets.")
@click.option("--seed", default=0, show_default=True, help="Of the first day.")
@click.option("--kept", type=click.Path(dir_okay=False, path_type=Path), help="Go on after these.")
def main(nodes: int, days: int, seed: int, kept: Path | None) -> None:
    """Print the table."""
    click.echo(table(nodes, days, seed, kept))


if __name__ == "__main__":
    main()
