"""Isolation without a fleet: faults that answer for groups, and how often it errs under noise.

    python bench/isolation.py

prints the table of docs/acceptance.md.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rdmaprov.isolation.rounds import Group, GroupOutcome, Isolation, IsolationResult, plan

# A search that does not end is a mistake of ours, not of the fleet's.
_MOST_ROUNDS = 10_000


@dataclass(frozen=True)
class World:
    """Faults of a fleet; without noise a group is bad exactly if one of them is in it.

    Args:
        nodes: nodes that are bad with everybody.
        pairs: two nodes each that are bad together only.
        leaves: leaves that are bad with other leaves only, by their nodes.
        rails: node and rail each: bad if the node uses that rail.
        hangs: nodes with which a group hangs.
        noise: how often a test says the opposite.

    """

    nodes: frozenset[str] = frozenset()
    pairs: frozenset[frozenset[str]] = frozenset()
    leaves: tuple[frozenset[str], ...] = ()
    rails: frozenset[tuple[str, int]] = frozenset()
    hangs: frozenset[str] = frozenset()
    noise: float = 0.0
    chance: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311

    def outcome(self, group: Group) -> GroupOutcome:
        """Return the outcome of the test of a group."""
        bad = self.is_bad(group)
        if self.noise and self.chance.random() < self.noise:
            bad = not bad
        if bad and not self.hangs.isdisjoint(group.nodes):
            return GroupOutcome.HANG
        return GroupOutcome.BAD if bad else GroupOutcome.GOOD

    def is_bad(self, group: Group) -> bool:
        """Return whether a fault is in a group."""
        members = frozenset(group.nodes)
        return (
            not self.nodes.isdisjoint(members)
            or any(pair <= members for pair in self.pairs)
            or any(leaf & members and members - leaf for leaf in self.leaves)
            or any(
                node in members and (not group.rails or rail in group.rails)
                for node, rail in self.rails
            )
        )


def solve(isolation: Isolation, world: World) -> IsolationResult:
    """Return what an isolation finds in a world.

    Raises:
        RuntimeError: it does not end, or its groups overlap.

    """
    for _ in range(_MOST_ROUNDS):
        groups = isolation.next_round()
        if not groups:
            return isolation.verdict()
        members = [node for group in groups for node in group.nodes]
        if len(set(members)) < len(members) or any(len(group.nodes) < 2 for group in groups):
            raise RuntimeError(f"groups overlap or are too small: {groups}")
        isolation.observe({group: world.outcome(group) for group in groups})
    raise RuntimeError("the isolation does not end")


def names(count: int) -> tuple[str, ...]:
    """Return the names of this number of nodes."""
    return tuple(f"n{index}" for index in range(count))


@dataclass(frozen=True)
class Rates:
    """What came of many trials with one bad node: shares of them, and mean rounds."""

    found: float
    false: float
    nothing: float
    rounds: float


def rates(count: int, noise: float, repeats: int, trials: int, seed: int = 0) -> Rates:
    """Return how often one bad node is found, and how often others are accused, under noise."""
    chance = random.Random(seed)  # noqa: S311 - a simulation's
    found = false = nothing = rounds = 0
    for _ in range(trials):
        bad = f"n{chance.randrange(count)}"
        world = World(nodes=frozenset([bad]), noise=noise, chance=chance)
        done = solve(plan(names(count), repeats=repeats), world)
        accused = {node for part in done.faulty_parts for node in part.nodes}
        found += bad in accused
        false += bool(accused - {bad})
        nothing += not accused
        rounds += done.rounds
    return Rates(found / trials, false / trials, nothing / trials, rounds / trials)


NODES = 64
TRIALS = 300


def table(
    noises: Iterable[float] = (0.0, 0.01, 0.02, 0.05), repeats: Iterable[int] = (1, 3, 5)
) -> str:
    """Return the table of docs/acceptance.md: one bad node of 64, 300 trials for each line."""
    lines = [
        "| a test errs | repeats | bad node named | good ones named | nobody named | rounds |",
        "|---|---|---|---|---|---|",
    ]
    cases: Mapping[tuple[float, int], Rates] = {
        (noise, times): rates(NODES, noise, times, TRIALS) for noise in noises for times in repeats
    }
    for (noise, times), seen in cases.items():
        lines.append(
            f"| {noise:.0%} | {times} | {seen.found:.1%} | {seen.false:.1%} | {seen.nothing:.1%} "
            f"| {seen.rounds:.1f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    import click

    click.echo(table(), nl=False)
