"""What things reached with each other in tests of two: nodes, or leaves with all of their nodes."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from rdmaprov.isolation.compare import BAD_SHARE, least_good

Pair = tuple[str, str]
# A slow result is repeated until two of three agree; a good one is not, as noise does not speed up.
MAJORITY = 2
_T = TypeVar("_T")


def pair_key(one: str, other: str) -> Pair:
    """Return a pair by which two are known in whatever order."""
    return (one, other) if one < other else (other, one)


@dataclass
class Meetings:
    """Tests of two of a kind, with what they reached.

    Args:
        share: of what the good ones reach, below which a test is bad.
    """

    share: float = BAD_SHARE
    _samples: dict[Pair, list[float]] = field(default_factory=lambda: defaultdict(list))
    # in the order of their tests: a set's would differ from run to run
    _partners: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    _least: float | None = None
    _verdicts: dict[Pair, bool] = field(default_factory=dict)

    def add(self, rates: Mapping[Pair, float]) -> None:
        """Take what tests reached, in GB/s; 0 for one that hung or crashed."""
        for (one, other), rate in rates.items():
            self._samples[pair_key(one, other)].append(rate)
            self._partners[one][other] = self._partners[other][one] = None
        self._least = None
        self._verdicts.clear()

    @property
    def least_gb_s(self) -> float:
        """Return the rate below which a test is bad, by all tests so far."""
        if self._least is None:
            best = [max(samples) for samples in self._samples.values()]
            self._least = least_good(best, self.share)
        return self._least

    def is_met(self, one: str, other: str) -> bool:
        """Return whether two were tested together."""
        return pair_key(one, other) in self._samples

    def is_bad(self, one: str, other: str) -> bool:
        """Return whether most tests of two were bad."""
        key = (one, other) if one < other else (other, one)
        if key not in self._verdicts:
            bad, count = self._count(key)
            self._verdicts[key] = 2 * bad > count
        return self._verdicts[key]

    def hangs(self, one: str, other: str) -> bool:
        """Return whether a test of two hung or crashed."""
        return 0.0 in self._samples.get(pair_key(one, other), ())

    def unsettled(self) -> Iterator[Pair]:
        """Yield pairs that must be tested again: neither good nor bad twice. A hang is no noise."""
        for key, samples in self._samples.items():
            bad, count = self._count(key)
            if 0 < bad < MAJORITY and count - bad < MAJORITY and 0.0 not in samples:
                yield key

    def pairs(self) -> Iterator[Pair]:
        """Yield the pairs that were tested."""
        yield from self._samples

    def bad_pairs(self) -> Iterator[Pair]:
        """Yield the pairs that are bad."""
        return (key for key in self._samples if self.is_bad(*key))

    def tests(self) -> Iterator[tuple[Pair, int, int]]:
        """Yield each pair with how many of its tests were bad, and how many there were."""
        for key in self._samples:
            yield key, *self._count(key)

    def count(self, one: str, other: str) -> int:
        """Return how often two were tested."""
        return len(self._samples.get(pair_key(one, other), ()))

    def partners(self, one: str, *, bad: bool) -> list[str]:
        """Return those with which it is bad, or those with which it is good."""
        return [other for other in self._partners[one] if self.is_bad(one, other) == bad]

    def rates(self) -> list[float]:
        """Return what each pair reached at best, GB/s."""
        return [max(samples) for samples in self._samples.values()]

    def _count(self, key: Pair) -> tuple[int, int]:
        samples = self._samples[key]
        return sum(rate < self.least_gb_s or rate <= 0 for rate in samples), len(samples)


def disjoint(pairs: Iterable[Pair], used: set[str]) -> list[Pair]:
    """Return pairs, in order, as long as none of the two is used; both are then."""
    taken = []
    for one, other in pairs:
        if one != other and not used & {one, other}:
            used |= {one, other}
            taken.append((one, other))
    return taken


def round_robin(things: Sequence[_T]) -> Iterator[tuple[tuple[_T, _T], ...]]:
    """Yield rounds of disjoint pairs, such that each pair is in one of them.

    N - 1 rounds of N / 2 pairs for an even number; for an odd one N rounds, with one idle in each.
    One place is fixed and the others turn, as in a tournament. (Kirkman, 1847)
    """
    if len(things) < 2:
        return
    places: list[_T | None] = list(things)
    if len(places) % 2:
        places.append(None)  # the one paired with it is idle
    half = len(places) // 2
    for _ in range(len(places) - 1):
        facing = zip(places[:half], reversed(places[half:]), strict=True)
        yield tuple((one, two) for one, two in facing if one is not None and two is not None)
        places.insert(1, places.pop())
