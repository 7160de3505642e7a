"""What paths reached, each against good ones of its kind."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rdmaprov.isolation.compare import least_good, reference
from rdmaprov.perftest import errors
from rdmaprov.perftest.expected import BAD_SHARE_OF_GOOD, MOST_SHARE
from rdmaprov.perftest.model import PathResult, PathTest

INSIDE, ACROSS, NOT_KNOWN = "under one leaf", "across leaves", "of unknown leaves"
# Errors that the path, or the ports at its ends, can cause. The others say nothing of it: perftest
# is missing, was killed, or its own TCP connection, which takes the management path, failed.
DEAD = errors.MEANINGS.keys() - errors.UNTESTED
# A path of six that is 4 % slower may be noise; a port whose six paths, or a leaf whose dozens,
# reach 4 % less on the median is not: 0.96 is our choice, and it gives way to six deviations
# between such parts (isolation/compare.py). Azure's lists demand 390 of 400 Gb/s, less slack.
MILD_SHARE = 0.96
# Fewer than this many paths of a kind are compared with those of all kinds.
_LEAST_OF_KIND = 8


class PathKey(NamedTuple):
    """One direction between two ports."""

    sender: str
    receiver: str
    rail: int
    into: int


class PathSample(NamedTuple):
    """What one test of a path reached, as a share of its ceiling, and in which round."""

    round: int
    value: float


def path_of(test: PathTest) -> PathKey:
    """Return the path of a test."""
    return PathKey(test.sender.node, test.receiver.node, test.sender.rail, test.receiver.rail)


@dataclass
class PathMatrix:
    """Tests of paths, all of bandwidth or all of latency."""

    # the leaf of each node; empty or missing where it is not known
    leaf_of: Mapping[str, str] = field(default_factory=dict)
    # returns what a path carries at most, GB/s; None of latency, or if it is not known
    ceiling: Callable[[PathKey], float] | None = None
    # of what good paths of its kind reach, below which a path is bad
    share: float = BAD_SHARE_OF_GOOD
    # of good ones, below which a part is bad by the median of its paths
    mild_share: float = MILD_SHARE
    # the share of their ceiling that paths across leaves have when all of them send: 1 without
    # oversubscription
    across: float = 1.0
    measures: str = "bandwidth"  # `bandwidth` or `latency`
    # of each path; 0 where nothing arrived
    samples: dict[PathKey, list[PathSample]] = field(default_factory=dict)
    # why a path has no number, the last reason
    errors: dict[PathKey, str] = field(default_factory=dict)
    # of which errors a path has, that say nothing of it
    unknown: dict[PathKey, str] = field(default_factory=dict)
    # what was said with that error, if anything
    reasons: dict[PathKey, str] = field(default_factory=dict)
    rounds: int = 0  # that were added
    _goods: dict[str, tuple[float, float]] = field(default_factory=dict)

    def add(self, results: Mapping[PathTest, PathResult]) -> None:
        """Take what came of a round."""
        self.rounds += 1
        self._goods.clear()
        for test, result in results.items():
            path = path_of(test)
            value = 0.0 if result.error in DEAD else self._number(test, result, path)
            if result.error in DEAD:
                self.errors[path] = result.error
            elif value is None:
                self.unknown[path] = result.error or "impossible"
                self.reasons[path] = result.said
            if value is not None:
                self.samples.setdefault(path, []).append(PathSample(self.rounds, value))

    def _number(self, test: PathTest, result: PathResult, path: PathKey) -> float | None:
        """Return a result such that more is better; None if it has none, or one that cannot be."""
        is_rate = test.measures == "bandwidth"
        said = result.gb_s if is_rate else result.usec
        if result.error or not math.isfinite(said) or said <= 0:
            return None
        if not is_rate:
            return 1 / said
        share = said / self.ceiling(path) if self.ceiling else said
        return None if self.ceiling and share > MOST_SHARE else share

    def kind(self, path: PathKey) -> str:
        """Return whether a path stays under its leaf."""
        return kind_of(self.leaf_of, path.sender, path.receiver)

    def value(self, path: PathKey) -> float:
        """Return what a path reached in the mean of its tests, as a share of good ones."""
        middle = statistics.fmean(sample.value for sample in self.samples[path])
        return self.relative(path, middle)

    def relative(self, path: PathKey, value: float) -> float:
        """Return a sample's value as a share of good paths of this kind."""
        good, _ = self.good(self.kind(path))
        return value / good if good > 0 else 0.0

    def limit(self, path: PathKey) -> float:
        """Return the share of good paths below which this one is bad."""
        good, least = self.good(self.kind(path))
        return least / good if good > 0 else self.share

    def is_bad(self, path: PathKey) -> bool:
        """Return whether a path is slower than those of its kind, or carries nothing."""
        return self.value(path) < self.limit(path)

    def good(self, kind: str) -> tuple[float, float]:
        """Return what good paths of a kind reach, and the least of them, in the samples' unit."""
        if not self._goods:
            by_kind: dict[str, list[float]] = {"": []}
            for path, samples in self.samples.items():
                middle = statistics.fmean(sample.value for sample in samples)
                by_kind[""].append(middle)
                by_kind.setdefault(self.kind(path), []).append(middle)
            for name, values in by_kind.items():
                few = len(values) < _LEAST_OF_KIND and self.ceiling is not None and self.across == 1
                own = by_kind[""] if few else values
                self._goods[name] = reference(own), least_good(own, self.share)
        return self._goods.get(kind, (0.0, 0.0))

    def later(self, paths: Iterable[PathKey], after: int) -> list[tuple[PathKey, float]]:
        """Return samples of paths from rounds after one, as shares of good ones."""
        return [
            (path, self.relative(path, sample.value))
            for path in paths
            for sample in self.samples.get(path, ())
            if sample.round > after
        ]

    def gb_s(self, path: PathKey) -> float:
        """Return what a path reached, GB/s (of latency: 1/µs)."""
        middle = statistics.fmean(sample.value for sample in self.samples[path])
        return middle * self.ceiling(path) if self.ceiling else middle


def kind_of(leaf_of: Mapping[str, str], one: str, other: str) -> str:
    """Return INSIDE, ACROSS or NOT_KNOWN for two nodes."""
    leaves = leaf_of.get(one, ""), leaf_of.get(other, "")
    if not all(leaves):
        return NOT_KNOWN
    return INSIDE if leaves[0] == leaves[1] else ACROSS
