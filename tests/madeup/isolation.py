"""Isolation without a fleet: made-up fabrics that answer for pairs, and how often it errs."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from rdmaprov.isolation.locate import FleetSearch, locate
from rdmaprov.isolation.meetings import Pair, pair_key
from rdmaprov.isolation.model import FaultyPart


@dataclass
class World:
    """A fabric by its capacities, as shares of what a healthy part carries."""

    # what the node's own links carry, by node; 0 for one with which tests hang
    nodes: Mapping[str, float] = field(default_factory=dict)
    # what the path between two nodes carries
    pairs: Mapping[Pair, float] = field(default_factory=dict)
    # what a leaf switch carries for each node under it, by leaf
    under: Mapping[str, float] = field(default_factory=dict)
    # what a leaf's uplinks carry of all that its nodes send, by leaf
    uplinks: Mapping[str, float] = field(default_factory=dict)
    spines: float = 1.0  # the same of all leaves
    collisions: float = 0.0  # how many paths between leaves share a link with another flow
    noise: float = 0.0  # the standard deviation of a measurement
    leaf_of: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0  # of the noise, and of which paths collide

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.sizes = Counter(self.leaf_of.values())

    def measure(self, pairs: Sequence[Pair]) -> Mapping[Pair, float]:
        """Return what pairs reach side by side; no node may be in two of them."""
        names = [name for pair in pairs for name in pair]
        if len(set(names)) < len(names):
            raise RuntimeError(f"pairs overlap: {pairs}")
        crossing = Counter(
            self.leaf_of.get(name, "") for pair in pairs if self._is_across(pair) for name in pair
        )
        return {pair: self._rate(pair, crossing) for pair in pairs}

    def is_slow(self, part: FaultyPart) -> bool:
        """Return whether a pair that is accused does collide with another flow."""
        return part.kind == "pair" and self._collides(pair_key(*part.nodes))

    def _collides(self, pair: Pair) -> bool:
        path = random.Random(f"{self.seed} {pair}")
        return self._is_across(pair) and path.random() < self.collisions

    def _is_across(self, pair: Pair) -> bool:
        return self.leaf_of.get(pair[0], "") != self.leaf_of.get(pair[1], "")

    def _rate(self, pair: Pair, crossing: Mapping[str, int]) -> float:
        limits = [self.nodes.get(name, 1.0) for name in pair]
        limits.append(self.pairs.get(pair_key(*pair), 1.0))
        limits += [self.under.get(self.leaf_of.get(name, ""), 1.0) for name in pair]
        if self._is_across(pair):
            for name in pair:
                leaf = self.leaf_of.get(name, "")
                carries = min(self.spines, self.uplinks.get(leaf, 1.0)) * self.sizes[leaf]
                limits.append(min(1.0, carries / crossing[leaf]))
            if self._collides(pair_key(*pair)):
                limits.append(0.5)
        return max(0.0, min(1.0, *limits) * (1 + self.chance.gauss(0, self.noise)))


def names(count: int) -> tuple[str, ...]:
    return tuple(f"n{index}" for index in range(count))


def leaves(count: int, size: int) -> dict[str, str]:
    """Return the leaf of each node, with `size` nodes under each."""
    return {f"n{index}": f"leaf{index // size}" for index in range(count)}


def solve(count: int, world: World, *, known: bool = True, rounds: int = 2) -> FleetSearch:
    """Return the search in a world at its end; `known` is whether the site states its leaves."""
    leaf_of = world.leaf_of if known else {}
    search = FleetSearch(names(count), world.measure, leaf_of, rounds=rounds)
    locate(search)
    return search


def fault(kind: str, count: int, size: int, seed: int) -> tuple[World, set[tuple[str, ...]]]:
    """Return a world with a fault, and what of it may be named: nodes, or the name of a leaf."""
    chance = random.Random(f"{kind} {seed}")
    leaf_of = leaves(count, size)
    node = chance.choice(names(count)[:-1])
    other = f"n{int(node[1:]) + 1}"  # a ring joins them; nothing else would show a pair's path
    leaf = chance.choice(sorted(set(leaf_of.values())))
    world = partial(World, noise=0.01, leaf_of=leaf_of, seed=seed)
    worlds: dict[str, tuple[World, set[tuple[str, ...]]]] = {
        "nothing": (world(), set()),
        "half a slot": (world(nodes={node: 0.5}), {(node,)}),
        "a rail missing": (world(nodes={node: 0.86}), {(node,)}),
        "a node hangs": (world(nodes={node: 0.0}), {(node,)}),
        "a pair's path": (world(pairs={pair_key(node, other): 0.5}), {(node, other)}),
        "half the uplinks": (world(uplinks={leaf: 0.5}), {(leaf,)}),
        "a leaf that loses": (world(under={leaf: 0.4}), {(leaf,)}),
        "oversubscribed": (world(spines=0.45), {("fleet",)}),
        "paths collide": (world(collisions=0.3), {("fleet",)}),
    }
    return worlds[kind]


KINDS = (
    *("nothing", "half a slot", "a rail missing", "a node hangs", "a pair's path"),
    *("half the uplinks", "a leaf that loses", "oversubscribed", "paths collide"),
)


def subject(part: FaultyPart) -> tuple[str, ...]:
    if part.kind == "fleet":
        return ("fleet",)
    return (part.name,) if part.kind == "leaf" else tuple(sorted(part.nodes))


@dataclass(frozen=True)
class Rates:
    """What came of many trials: shares of them, and mean rounds."""

    found: float
    false: float
    rounds: float


def rates(kind: str, count: int, size: int, trials: int) -> Rates:
    """Return how often a fault is named, how often something else is, and in how many rounds."""
    found = false = rounds = 0
    for seed in range(trials):
        world, right = fault(kind, count, size, seed)
        done = solve(count, world)
        said = {subject(part) for part in done.parts}
        right = {tuple(sorted(it)) for it in right}
        true = {subject(part) for part in done.parts if world.is_slow(part)}
        found += right <= said or bool(right and true)
        false += bool(said - right - true)
        rounds += done.tests
    return Rates(found / trials, false / trials, rounds / trials)
