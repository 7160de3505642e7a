"""Which of several alike measurements are bad: by comparison, without a number from outside."""

import math
import statistics
from collections.abc import Collection, Iterator, Mapping

from rdmaprov.bandwidth.rates import format_gb_s
from rdmaprov.finding.finding import Finding

# The mildest fault that must be seen is one of eight rails that carries nothing: 7/8 = 0.875 of the
# others (github.com/NVIDIA/nccl-tests/issues/380: the other rails share its data). Between that and
# 1, this is our choice: at 1 % noise a healthy group is ten standard deviations away from it.
BAD_SHARE = 0.9
# gloo over TCP shares the CPU with whatever else runs there; twofold differences mean nothing.
GLOO_BAD_SHARE = 1 / 3
# Where the good ones vary more than 1.7 %, the share gives way: six standard deviations are one
# healthy group in a billion if the noise is normal, and few in a million if its tails are long.
_SIGMAS = 6.0
_TO_SIGMA = 1.4826  # a median absolute deviation is 0.6745 standard deviations of a normal one
_LEAST_FOR_NOISE = 8
# Of three pairs of three nodes, one is good where one node is bad.
_LEAST_FOR_PEERS = 4
# Of a few nodes, none is usual.
_LEAST_NODES = 3


def reference(rates: Collection[float]) -> float:
    """Return what a good measurement reaches: the value that an eighth of them exceed.

    Unlike the median, it holds when most of a fleet is bad: of pairs, an eighth is good as long as
    a third of the nodes is. Nothing reaches more than the fabric allows, so an eighth cannot all be
    too fast.

    Args:
        rates: of tests that are alike: the same number of nodes, the same kind of path, GB/s.
    """
    ordered = sorted(rates, reverse=True)
    return ordered[len(ordered) // 8] if ordered else 0.0


def least_good(rates: Collection[float], share: float = BAD_SHARE) -> float:
    """Return the rate below which a measurement is bad, in the unit of the rates."""
    usual = reference(_with_peers(rates) if share <= GLOO_BAD_SHARE else rates)
    good = [rate for rate in rates if rate >= share * usual]
    if usual <= 0 or len(good) < _LEAST_FOR_NOISE:
        return share * usual
    middle = statistics.median(good)
    sigma = _TO_SIGMA * statistics.median(abs(rate - middle) for rate in good)
    return min(share * usual, max(usual - _SIGMAS * sigma, GLOO_BAD_SHARE * usual))


def _with_peers(rates: Collection[float]) -> Collection[float]:
    """Return the rates without the fastest, where there are enough to have one like it.

    Over gloo, a test that goes on when all else has ended has the processors to itself: of four
    emulated nodes, one pair was four times as fast as the others.
    """
    return sorted(rates)[:-1] if len(rates) >= _LEAST_FOR_PEERS else rates


def upper_tail(least: int, count: int, share: float) -> float:
    """Return how likely `least` or more of `count` are bad, by the binomial distribution."""
    return sum(
        math.comb(count, bad) * share**bad * (1 - share) ** (count - bad)
        for bad in range(least, count + 1)
    )


def least_rate(rates: Mapping[str, float]) -> float:
    """Return what a node must reach alone beside its peers, GB/s; 0 where they are too few.

    Of few nodes, the fastest by itself shows nothing of the others: they may be as usual.
    """
    return least_good(sorted(rates.values())[:-1]) if len(rates) >= _LEAST_NODES else 0.0


def slow_nodes(rates: Mapping[str, float]) -> Iterator[Finding]:
    """Yield the nodes that are slow beside their peers.

    Args:
        rates: bus bandwidth of an all-reduce inside each node, GB/s.
    """
    if not (least := least_rate(rates)):
        return
    usual = statistics.median(rates.values())
    for name, rate in rates.items():
        if rate < least:
            what = (
                f"an all-reduce inside the node reaches {format_gb_s(rate)}, "
                f"{100 * rate / usual:.0f} % of the {format_gb_s(usual)} of its peers"
            )
            remedy = (
                f"On {name}, check: nvidia-smi nvlink -s; nvidia-smi -q -d PERFORMANCE; dmesg -T"
            )
            values = {"gb_s": rate, "usual_gb_s": usual}
            yield Finding("gpu.links", what, remedy, name, level="node", values=values)
