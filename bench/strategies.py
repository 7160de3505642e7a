"""How others find a bad node, and how this project does, by measured pairs and groups alone.

Each is written from its published description, whose address stands beside it, with what had to be
assumed. A rate below which a test is bad and that a user has to set is given: 0.9 of what a good
fleet reaches, which this project's own search has to find out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from tests.madeup.clock import USUAL

from rdmaprov.isolation.locate import FleetSearch, locate
from rdmaprov.isolation.meetings import Pair, round_robin

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Nodes = Sequence[int]
GIVEN = 0.9
# One test takes half a second when its communicator is there; one that hangs, the limit of a step
# (acceptance/ranks/jobs.py), and then all ranks start anew. The same for all.
_MEASURE_S, _HANG_S, _GPUS = 0.5, 180.0, 8


@dataclass(frozen=True)
class Accused:
    """What a strategy names: a node, a pair, the nodes of a leaf, or the fabric."""

    kind: str
    nodes: frozenset[int]


@dataclass
class Fabric:
    """A fleet that answers for groups: tests/madeup/isolation.py's `World`, in arrays.

    The nodes of a group are a ring, which the slowest of its paths limits; two are a ring, too.
    """

    nodes: Floats  # share of a healthy node's rate; 0 for one with which tests hang
    leaf: Ints  # number of each node's leaf
    uplinks: Floats  # share of a leaf's nodes that its uplinks can carry at once, by leaf
    # what the paths between two nodes carry
    paths: dict[tuple[int, int], float] = field(default_factory=dict)
    # by how much, at most, hashing slows a path between leaves; each has its own
    spread: float = 0.0
    noise: float = 0.0  # standard deviation of a test
    seed: int = 0
    rounds: int = 0  # of tests side by side
    seconds: float = 0.0  # on the fleet's clock; ranks start once

    def __post_init__(self) -> None:
        """Begin the noise and the clock."""
        self.chance = np.random.default_rng(self.seed)
        self.sizes = np.bincount(self.leaf, minlength=len(self.uplinks))
        self.seconds = USUAL.start(_GPUS * len(self.nodes))

    @property
    def leaves(self) -> list[list[int]]:
        """Return the nodes of each leaf."""
        return [np.flatnonzero(self.leaf == each).tolist() for each in range(len(self.uplinks))]

    def measure(self, groups: Sequence[Nodes]) -> Floats:
        """Return what disjoint groups reach side by side; one node alone, what its links carry."""
        sizes = np.array([len(group) for group in groups])
        source = np.concatenate([np.asarray(group, dtype=np.int64) for group in groups])
        target = np.concatenate(
            [np.roll(np.asarray(group, dtype=np.int64), -1) for group in groups]
        )
        limits = self._limits(source, target)
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        return self._take(np.minimum.reduceat(limits, starts), int(sizes.max()), 1)

    def measure_pairs(self, one: Ints, other: Ints, *, alone: bool = False) -> Floats:
        """Return what pairs reach side by side, or `alone`: one after the other."""
        limits = self._limits(one, other, both=True, alone=alone)
        return self._take(limits, 2, len(one) if alone else 1)

    def _limits(
        self, source: Ints, target: Ints, *, both: bool = False, alone: bool = False
    ) -> Floats:
        limits = np.minimum(np.minimum(self.nodes[source], self.nodes[target]), 1.0)
        for (a, b), share in self.paths.items():
            hit = ((source == a) & (target == b)) | ((source == b) & (target == a))
            limits[hit] = np.minimum(limits[hit], share)
        across = self.leaf[source] != self.leaf[target]
        if self.spread:
            limits[across] *= 1 - self.spread * self._hash(source[across], target[across])
        if across.any() and not alone:
            # A ring leaves a leaf as often as it enters it; of a pair, each end does both.
            ends = [source[across], target[across]] if both else [source[across]]
            crossing = np.bincount(self.leaf[np.concatenate(ends)], minlength=len(self.uplinks))
            carry = self.uplinks * self.sizes / np.maximum(1, crossing)
            most = np.minimum(carry[self.leaf[source]], carry[self.leaf[target]])
            limits[across] = np.minimum(limits, most)[across]
        return limits

    def _hash(self, one: Ints, other: Ints) -> Floats:
        """Return a number between 0 and 1 for each path: always the same one."""
        low, high = np.minimum(one, other), np.maximum(one, other)
        mixed = (low * 2654435761 + high * 40503 + self.seed * 97 + 12345) % 4294967296
        mixed = (mixed ^ (mixed >> 13)) * 1274126177 % 4294967296
        found: Floats = (mixed ^ (mixed >> 16)) / 4294967296
        return found

    def _take(self, limits: Floats, largest: int, rounds: int) -> Floats:
        hung = limits <= 0
        waits = int(hung.sum()) if rounds > 1 else int(hung.any())
        self.rounds += rounds
        self.seconds += rounds * (USUAL.connect(_GPUS * largest) + _MEASURE_S)
        self.seconds += waits * (_HANG_S + USUAL.start(_GPUS * len(self.nodes)))
        noise = 1 + self.noise * self.chance.standard_normal(len(limits))
        found: Floats = np.maximum(0.0, limits * noise)
        return found


Strategy = Callable[[Fabric], list[Accused]]


def _nodes(found: Nodes) -> list[Accused]:
    return [Accused("node", frozenset((int(node),))) for node in found]


def _all_pairs(fabric: Fabric) -> Iterator[tuple[Ints, Ints]]:
    for pairs in round_robin(range(len(fabric.nodes))):
        both = np.array(pairs)
        yield both[:, 0], both[:, 1]


def _from_pairs(fabric: Fabric, one: Ints, other: Ints) -> list[Accused]:
    """Return what bad pairs say: a node bad with most others, else the pair.

    Both tools print pairs, and neither says how to read them: this is how a person would.
    """
    many = len(fabric.nodes)
    count = np.bincount(np.concatenate([one, other]), minlength=many)
    bad = np.flatnonzero(2 * count > many - 1)
    rest = ~np.isin(one, bad) & ~np.isin(other, bad)
    pairs = zip(one[rest].tolist(), other[rest].tolist(), strict=True)
    return [*_nodes(bad.tolist()), *(Accused("pair", frozenset(pair)) for pair in pairs)]


def gcm(fabric: Fabric) -> list[Accused]:
    """facebookresearch/gcm, `check-nccl --pairwise-exhaustive`: all pairs against a threshold.

    https://facebookresearch.github.io/gcm/docs/GCM_Health_Checks/health_checks/check-nccl
    Assumed: pairs are tested one after the other; the threshold is the given one.
    """
    one, other = np.triu_indices(len(fabric.nodes), 1)
    bad = fabric.measure_pairs(one, other, alone=True) < GIVEN
    return _from_pairs(fabric, one[bad], other[bad])


def clusterkit(fabric: Fabric) -> list[Accused]:
    """NVIDIA ClusterKit: n - 1 rounds of n / 2 pairs; bad below 93 % of the best; retested.

    https://docs.nvidia.com/networking/display/hpcxv224/running+clusterkit
    Assumed: "the total number of pairs is halved" is of those side by side, and there are three
    rounds of retests, at n / 4, n / 8 and n / 16; what is bad in all of them is bad.
    """
    rounds = list(_all_pairs(fabric))
    reached = [fabric.measure_pairs(*pairs) for pairs in rounds]
    least = 0.93 * max(float(rates.max()) for rates in reached)
    left = [(o[r < least], t[r < least]) for (o, t), r in zip(rounds, reached, strict=True)]
    for share in (4, 8, 16):
        width = max(1, len(fabric.nodes) // share)
        again = []
        for one, other in left:
            for at in range(0, len(one), width):
                own = one[at : at + width], other[at : at + width]
                bad = fabric.measure_pairs(*own) < least
                again.append((own[0][bad], own[1][bad]))
        left = again
    if not left:
        return []
    return _from_pairs(fabric, *(np.concatenate(ends) for ends in zip(*left, strict=True)))


def cvs(fabric: Fabric) -> list[Accused]:
    """ROCm/cvs: the first node with each other one, then a ring that grows by one good node.

    https://github.com/ROCm/cvs/pull/280: pairs must end, with no limit of bandwidth; a ring must
    reach `pairwise_min_bw`. Assumed: the given one; who is excluded is accused.
    """
    others = np.arange(1, len(fabric.nodes))
    ended = fabric.measure_pairs(np.zeros_like(others), others, alone=True) > 0
    ring, bad = [0], others[~ended].tolist()
    for node in others[ended].tolist():
        if fabric.measure([[*ring, node]])[0] >= GIVEN:
            ring.append(node)
        else:
            bad.append(node)
    return _nodes(bad)


def sichek(fabric: Fabric) -> list[Accused]:
    """scitix/sichek: halves, one test at a time; of four nodes each is left out once.

    https://github.com/scitix/sichek, scripts/atest/nccltest_allreduce_perf_bisect.py (0c71de2).
    Assumed: `--min-bandwidth` is the given one.
    """
    bad: list[int] = []
    good: list[int] = []
    stack = [list(range(len(fabric.nodes)))]
    while stack:
        group = stack.pop()
        if fabric.measure([group])[0] >= GIVEN:
            good += group
        elif len(group) > 4:
            stack += [group[: len(group) // 2], group[len(group) // 2 :]]
        else:
            found = []
            for node in group:
                rest = [each for each in group if each != node]
                rest += good[:1] if len(rest) < 2 else []
                if len(rest) > 1 and fabric.measure([rest])[0] >= GIVEN:
                    found.append(node)
            bad += found or group
    return _nodes(bad)


def primus(fabric: Fabric) -> list[Accused]:
    """AMD-AGI/Primus: halves down to one node, two tests side by side.

    https://github.com/AMD-AGI/Primus/pull/689. Assumed: its preflight fails below the given rate
    (its own has no limit); one node alone is judged by what its links carry.
    """
    bad: list[int] = []
    level = [list(range(len(fabric.nodes)))]
    while level:
        failed = []
        for at in range(0, len(level), 2):
            groups = level[at : at + 2]
            rates = fabric.measure(groups)
            failed += [group for group, rate in zip(groups, rates, strict=True) if rate < GIVEN]
        bad += [group[0] for group in failed if len(group) == 1]
        level = [
            half
            for group in failed
            if len(group) > 1
            for half in (group[: len(group) // 2], group[len(group) // 2 :])
        ]
    return _nodes(bad)


def primus_safe(fabric: Fabric) -> list[Accused]:
    """AMD-AGI/Primus-SaFE: halves side by side; each of the last two with a good node.

    https://github.com/AMD-AGI/Primus-SaFE, Bench/preflight/network/binary_diagnose.py (006767b),
    whose limit is 0.85 of its reference. Assumed: that is what a good fleet reaches.
    """
    limit = 0.85
    good: list[int] = []
    last: list[int] = []
    level = [list(range(len(fabric.nodes)))]
    while level:
        rates = fabric.measure(level)
        failed = [group for group, rate in zip(level, rates, strict=True) if rate < limit]
        good += [
            n for group, rate in zip(level, rates, strict=True) if rate >= limit for n in group
        ]
        last += [node for group in failed if len(group) <= 2 for node in group]
        level = [
            half
            for group in failed
            if len(group) > 2
            for half in (group[: len(group) // 2], group[len(group) // 2 :])
        ]
    return _nodes(_confirmed(fabric, last, good, limit, 8))


def _confirmed(
    fabric: Fabric, suspects: Sequence[int], good: Sequence[int], limit: float, most: int
) -> list[int]:
    """Return the suspects that fail with a good node each; without one, all."""
    bad: list[int] = []
    width = min(most, len(good))
    if not width:
        return list(suspects)
    for at in range(0, len(suspects), width):
        own = suspects[at : at + width]
        rates = fabric.measure(list(zip(own, good, strict=False)))
        bad += [node for node, rate in zip(own, rates, strict=True) if rate < limit]
    return bad


def nvcre(fabric: Fabric) -> list[Accused]:
    """NVIDIA/cluster-readiness-engine, `testScale: diagnose`: leaves, one of each, then halves.

    https://github.com/NVIDIA/cluster-readiness-engine, docs/designs/055-adaptive-fault-isolation.md
    and 056-cross-boundary-probing.md (908cb14). Assumed: `topologyKey` is the leaf,
    `busBandwidthGBps` the given one; there is no NVLink between nodes. Boundaries that it reports
    with more than two nodes accuse the fabric.
    """
    groups = fabric.leaves
    rates = fabric.measure(groups)
    failed = [group for group, rate in zip(groups, rates, strict=True) if rate < GIVEN]
    whole = [group for group, rate in zip(groups, rates, strict=True) if rate >= GIVEN]
    good = [node for group in whole for node in group]
    speakers = [group[0] for group in whole]
    if len(speakers) > 1 and fabric.measure([speakers])[0] < GIVEN:
        failed.append(speakers)
        good = [node for node in good if node not in speakers]
    suspects: list[int] = []
    found: list[Accused] = []
    while failed:
        suspects += [node for group in failed if len(group) <= 2 for node in group]
        halves = [(g[: len(g) // 2], g[len(g) // 2 :]) for g in failed if len(g) > 2]
        failed = []
        if not halves:
            break
        spare = iter(good)
        flat = [each for both in halves for each in both]
        asked = [[*g, *([next(spare, g[0])] if len(g) == 1 else [])] for g in flat]
        passed = fabric.measure([list(dict.fromkeys(group)) for group in asked]) >= GIVEN
        for (one, other), ends in zip(halves, passed.reshape(-1, 2).tolist(), strict=True):
            good += [n for half, ok in ((one, ends[0]), (other, ends[1])) if ok for n in half]
            failed += [half for half, ok in ((one, ends[0]), (other, ends[1])) if not ok]
            if all(ends):
                found += _boundary(fabric, one, other)
    return [*_nodes(_confirmed(fabric, suspects, good, GIVEN, len(good))), *found]


def _boundary(fabric: Fabric, one: list[int], other: list[int]) -> list[Accused]:
    """Return what lies between two halves that pass: groups mixed of both, halved again."""
    for _ in range(1 + math.ceil(math.log2(max(1, min(len(one), len(other)))))):
        if len(one) + len(other) <= 2:
            break
        middle = (len(one) + 1) // 2, (len(other) + 1) // 2
        mixes = [(one[: middle[0]], other[: middle[1]]), (one[middle[0] :], other[middle[1] :])]
        mixes = [mix for mix in mixes if mix[0] and mix[1]]
        bad = [
            mix
            for mix, rate in zip(mixes, fabric.measure([a + b for a, b in mixes]), strict=True)
            if rate < GIVEN
        ]
        if not bad:
            return []  # a transient
        if len(bad) > 1:
            break
        one, other = bad[0]
    nodes = frozenset((*one, *other))
    return [Accused("pair" if len(nodes) == 2 else "fabric", nodes)]


def megatron(fabric: Fabric) -> list[Accused]:
    """NVIDIA/Megatron-LM, sniff test: send and receive at three strides; one sigma and 10 %.

    https://github.com/NVIDIA/Megatron-LM/pull/4662. Both ends of a slow pair are flagged; assumed:
    a node is accused if it is at each stride. The all-reduce of all has one value and flags none.
    """
    many = len(fabric.nodes)
    fabric.measure([range(many)])
    powers = [1 << bit for bit in range((many // 2).bit_length())]
    flagged = np.ones(many, dtype=bool)
    for stride in sorted({powers[0], powers[len(powers) // 2], powers[-1]}):
        one = np.array([n for n in range(many) if n < n ^ stride < many])
        rates = np.full(many, np.nan)
        rates[one] = rates[one ^ stride] = fabric.measure_pairs(one, one ^ stride)
        off = np.abs(rates - np.nanmean(rates))
        flagged &= (off > np.nanstd(rates)) & (off > 0.1 * np.nanmean(rates))
    return _nodes(np.flatnonzero(flagged).tolist())


def ours(fabric: Fabric) -> list[Accused]:
    """rdmaprov: the search of pairs of isolation/locate.py, with the site's leaves."""
    names = [f"n{node}" for node in range(len(fabric.nodes))]
    number = {name: node for node, name in enumerate(names)}

    def measure(pairs: Sequence[Pair]) -> dict[Pair, float]:
        both = np.array([(number[a], number[b]) for a, b in pairs])
        return dict(zip(pairs, fabric.measure_pairs(both[:, 0], both[:, 1]).tolist(), strict=True))

    leaf_of = {name: f"leaf{fabric.leaf[node]}" for name, node in number.items()}
    parts = locate(FleetSearch(names, measure, leaf_of))
    return [
        Accused("fabric" if p.kind == "fleet" else p.kind, frozenset(number[n] for n in p.nodes))
        for p in parts
    ]


STRATEGIES: dict[str, Strategy] = {
    "rdmaprov": ours,
    "NVCRE": nvcre,
    "ROCm/cvs": cvs,
    "sichek": sichek,
    "Primus": primus,
    "Primus-SaFE": primus_safe,
    "ClusterKit": clusterkit,
    "gcm": gcm,
    "Megatron-LM": megatron,
}
