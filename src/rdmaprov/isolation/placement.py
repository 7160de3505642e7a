"""Nodes whose cables lead to another leaf than the site says, by the latency of pairs.

Two nodes of one leaf are a switch apart, others three. That costs a microsecond or two and no
bandwidth, so a misplaced node is only seen by its latency: it is far from its own leaf.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest

from rdmaprov.isolation.meetings import Pair, round_robin
from rdmaprov.isolation.model import FaultyPart

# Three others of its leaf, where it has as many, are more than one bad path; our choice.
INSIDE_ROUNDS, ACROSS_ROUNDS = 3, 2
_LEAST_OF_LEAF = 3
_LEAST_PAIRS = 4
# Where the two kinds of pairs are not this many deviations apart, latency tells nothing of leaves:
# half of it is three, and once in 700 a normal value is farther away, but not all of a node.
_SIGMAS = 6.0
_TO_SIGMA = 1.4826
# Of more nodes than this share, the site's leaves are meant otherwise.
_MOST_SHARE = 0.25
_REMEDY = "Compare the switches that its rails are cabled to (lldpctl) with the site's fabric_leaf"


def placement_rounds(leaf_of: Mapping[str, str]) -> Iterator[list[Pair]]:
    """Yield rounds of pairs under the same leaf, then under different ones; none without leaves."""
    leaves: dict[str, list[str]] = defaultdict(list)
    for node, leaf in leaf_of.items():
        if leaf:
            leaves[leaf].append(node)
    if len(leaves) < 2 or max(map(len, leaves.values())) < _LEAST_OF_LEAF:
        return
    inside = zip_longest(*(round_robin(own) for own in leaves.values()), fillvalue=())
    for each in islice(inside, INSIDE_ROUNDS):
        yield list(chain.from_iterable(each))
    for pairs in islice(round_robin(list(leaves)), ACROSS_ROUNDS):
        yield [each for a, b in pairs for each in zip(leaves[a], leaves[b], strict=False)]


def misplaced(us: Mapping[Pair, float], leaf_of: Mapping[str, str]) -> list[FaultyPart]:
    """Return the nodes that are as far from their own leaf as nodes of other leaves are.

    Args:
        us: half a round trip of each pair, microseconds.
    """
    near, far = _by_node(us, leaf_of, same=True), _by_node(us, leaf_of, same=False)
    limits = _limits(
        [us for own in near.values() for us in own.values()],
        [us for own in far.values() for us in own.values()],
    )
    if limits is None:
        return []
    middle, most = limits
    found = [
        node
        for node, own in near.items()
        if len(own) >= _LEAST_OF_LEAF - 1
        and all(middle < value < most for value in own.values())
        and far[node]
        and max(far[node].values()) < most  # else it is slow, wherever it is
        and all(_has_near(near[other], node, middle) for other in own)
    ]
    if len(found) > _MOST_SHARE * len(leaf_of):
        return []
    return [_part(node, leaf_of[node], near[node], middle) for node in found]


def _part(node: str, leaf: str, own: Mapping[str, float], middle: float) -> FaultyPart:
    why = (
        f"it is not under {leaf} as the site says: half a round trip to {len(own)} nodes of that "
        f"leaf takes {min(own.values()):.1f} us or more, between others of one leaf less than "
        f"{middle:.1f} us, and to nodes of other leaves it takes no longer"
    )
    return FaultyPart("node", (node,), False, why, remedy=_REMEDY)


def _by_node(
    us: Mapping[Pair, float], leaf_of: Mapping[str, str], *, same: bool
) -> dict[str, dict[str, float]]:
    """Return what each node takes to others, of its own leaf or of other ones."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for (one, other), value in us.items():
        if value > 0 and (leaf_of[one] == leaf_of[other]) == same:
            found[one][other] = found[other][one] = value
    return found


def _limits(near: Sequence[float], far: Sequence[float]) -> tuple[float, float] | None:
    """Return what tells near pairs from far ones, and the most of far ones; None if nothing does.

    Each pair is in its values twice, which changes neither the medians nor the deviations.
    """
    if min(len(near), len(far)) < 2 * _LEAST_PAIRS:
        return None
    here, there = statistics.median(near), statistics.median(far)
    sigma = max(_deviation(near, here), _deviation(far, there))
    if there - here <= _SIGMAS * sigma:
        return None
    return (here + there) / 2, there + (there - here) / 2


def _deviation(values: Sequence[float], middle: float) -> float:
    return _TO_SIGMA * statistics.median(abs(value - middle) for value in values)


def _has_near(own: Mapping[str, float], apart: str, middle: float) -> bool:
    """Return whether a node is near another one of its leaf."""
    return any(value < middle for other, value in own.items() if other != apart)
