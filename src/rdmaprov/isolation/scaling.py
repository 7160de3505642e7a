"""How bus bandwidth and latency of an all-reduce change with the nodes, and where they break off.

At each count of nodes, disjoint sets measure side by side. A set is slow if it is below what a
healthy one of its size reaches (efficiency.healthy_gb_s, which falls with the nodes), or below the
others, or below itself in another order. A slow set explains each larger one that it shares a node
with. The knee is the first count with a slow set that no smaller one explains, if the larger
counts stay slow there: a path that only one order of the nodes uses is none.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rdmaprov.bandwidth.rates import format_gb_s
from rdmaprov.isolation.compare import BAD_SHARE, reference
from rdmaprov.words import quantity

# Of the time that a set takes too long: what must be latency for the knee to rest on it. The rest
# is less, so it is the larger part.
_MOSTLY = 0.5


class KneeCause(StrEnum):
    """What a knee rests on."""

    LEAVES = "crossing of leaves"
    OVERSUBSCRIPTION = "oversubscription, or uneven routes by the spines"
    LATENCY = "latency"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class SetRate:
    """What one set of nodes reached while the others of its size measured too.

    Args:
        leaves: how many it spans; 0 if the site does not say.
        latency_us: of the smallest message.
        gb_s: bus bandwidth with neighbours in the ring under different leaves, as far as it has
            any.
        in_order_gb_s: the same with leaf after leaf, so that each is left once; `gb_s` again where
            that is the same ring.
        healthy_gb_s: what a healthy set reaches at least; 0 where no model applies.
        healthy_us: the latency that the model allows it; 0 likewise.
    """

    nodes: tuple[str, ...]
    leaves: int
    latency_us: float
    gb_s: float
    in_order_gb_s: float
    healthy_gb_s: float = 0.0
    healthy_us: float = 0.0

    @property
    def crosses(self) -> bool:
        """Return whether its data leaves a leaf."""
        return self.leaves > 1


@dataclass(frozen=True)
class ScalePoint:
    """One count of nodes.

    Args:
        sets: what each reached; one at least.
        share: of what good sets reach, below which one is slow.
    """

    nodes: int
    sets: tuple[SetRate, ...]
    bytes: int
    share: float = BAD_SHARE

    @property
    def gb_s(self) -> float:
        """Return what the point stands for: the middle one of its sets, the better of two."""
        return _middle(each.gb_s for each in self.sets)

    @property
    def least_gb_s(self) -> float:
        """Return what its slowest set reaches."""
        return min(each.gb_s for each in self.sets)

    @property
    def healthy_gb_s(self) -> float:
        """Return what each of its sets reaches at least if it is healthy; 0 without a model."""
        return min(each.healthy_gb_s for each in self.sets)

    @property
    def in_order_gb_s(self) -> float:
        """Return the same with leaf after leaf."""
        return _middle(each.in_order_gb_s for each in self.sets)

    @property
    def latency_us(self) -> float:
        """Return the latency of the middle set, microseconds."""
        return _middle(each.latency_us for each in self.sets)

    @property
    def crosses(self) -> bool:
        """Return whether any set leaves its leaf."""
        return any(each.crosses for each in self.sets)

    def slow_sets(self) -> tuple[SetRate, ...]:
        """Return the sets that are slow, by the model, by the others or by their other order."""
        usual = reference([each.gb_s for each in self.sets])
        return tuple(each for each in self.sets if self._is_slow(each, usual))

    def _is_slow(self, each: SetRate, usual: float) -> bool:
        best = max(usual, each.in_order_gb_s)
        return each.gb_s < each.healthy_gb_s or each.gb_s < self.share * best


@dataclass(frozen=True)
class Knee:
    """The count of nodes from which the curve is worse than the model allows."""

    nodes: int
    cause: KneeCause
    sets: tuple[SetRate, ...]
    of: int
    why: str


@dataclass(frozen=True)
class ScalingVerdict:
    """What a curve shows.

    Args:
        knee: None if it has none.
        odd: slow sets of the smallest count, whose nodes explain larger ones.
        is_low: whether most sets of the smallest count are slow: then the level is, not the curve.
    """

    knee: Knee | None
    odd: tuple[SetRate, ...] = ()
    is_low: bool = False


def judge_curve(points: Sequence[ScalePoint]) -> ScalingVerdict:
    """Return the verdict on a curve; `points`: one or more, ascending by nodes."""
    first = points[0]
    odd = first.slow_sets()
    if 2 * len(odd) > len(first.sets) and not first.crosses:
        return ScalingVerdict(None, odd, is_low=True)
    found = _knee(points)
    return ScalingVerdict(found, odd if found is None or found.nodes > first.nodes else ())


def _knee(points: Sequence[ScalePoint]) -> Knee | None:
    explained: set[str] = set()
    for place, point in enumerate(points):
        slow = point.slow_sets()
        new = tuple(each for each in slow if explained.isdisjoint(each.nodes))
        # Of pairs under one leaf, a slow one is a bad node or path: no count made it so.
        lasting = [each for each in new if _stays_slow(each, points[place + 1 :])]
        if lasting and (place or point.crosses):
            crossed = any(before.crosses for before in points[:place])
            return _name(point, tuple(lasting), crossed=crossed)
        explained.update(name for each in slow for name in each.nodes)
    return None


def _stays_slow(each: SetRate, later: Iterable[ScalePoint]) -> bool:
    """Return whether each larger count is slow where these nodes take part."""
    nodes = set(each.nodes)
    return all(
        any(not nodes.isdisjoint(other.nodes) for other in point.slow_sets()) for point in later
    )


def _name(point: ScalePoint, slow: tuple[SetRate, ...], *, crossed: bool) -> Knee:
    """Return the knee; `crossed`: smaller sets crossed leaves too, and were fast."""
    worst = min(slow, key=lambda each: each.gb_s)
    cause = KneeCause.UNKNOWN if crossed else _cause(point, worst, len(slow))
    if _is_late(point, worst):
        cause = KneeCause.LATENCY
    return Knee(point.nodes, cause, slow, len(point.sets), "; ".join(_reasons(point, worst, cause)))


def _cause(point: ScalePoint, worst: SetRate, count: int) -> KneeCause:
    in_order_is_fast = worst.in_order_gb_s >= worst.healthy_gb_s
    if worst.crosses and in_order_is_fast and worst.gb_s < point.share * worst.in_order_gb_s:
        whole = count == len(point.sets) > 1
        return KneeCause.OVERSUBSCRIPTION if whole else KneeCause.LEAVES
    return KneeCause.UNKNOWN


def _is_late(point: ScalePoint, each: SetRate) -> bool:
    """Return whether latency beyond the model explains most of the time that is lost."""
    if not each.healthy_gb_s or each.latency_us <= each.healthy_us:
        return False
    moved = point.bytes * 2e-3  # an all-reduce sends each byte twice; 1 GB/s is 1e3 bytes a µs
    lost_us = moved / each.gb_s - moved / each.healthy_gb_s if each.gb_s else float("inf")
    return each.latency_us - each.healthy_us >= _MOSTLY * lost_us


def _reasons(point: ScalePoint, worst: SetRate, cause: KneeCause) -> Iterator[str]:
    healthy = worst.healthy_gb_s
    least = f", a healthy set {format_gb_s(healthy)} or more" if healthy else ""
    yield f"{quantity(point.nodes, 'node')} reach {format_gb_s(worst.gb_s)}{least}"
    if cause in (KneeCause.LEAVES, KneeCause.OVERSUBSCRIPTION) and worst.gb_s:
        yield (
            f"the same nodes leaf by leaf reach {format_gb_s(worst.in_order_gb_s)}, as with an "
            f"oversubscription of {worst.in_order_gb_s / worst.gb_s:.1f}:1"
        )
    if cause is KneeCause.LATENCY:
        yield (
            f"the smallest message takes {worst.latency_us:,.0f} µs, "
            f"{worst.healthy_us:,.0f} µs at most in a healthy set"
        )


def _middle(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
