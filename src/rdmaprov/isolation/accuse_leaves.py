"""Leaves and uplinks that pairs of nodes under different leaves show to be at fault."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from rdmaprov.isolation.fleet_search import EITHER, LEAST_OF_LEAF, FleetSearch
from rdmaprov.isolation.meetings import Meetings
from rdmaprov.isolation.model import FaultyPart
from rdmaprov.isolation.witnesses import WitnessSearch
from rdmaprov.words import some

_MOST_OF_LEAF = 0.75


def accuse_all(
    fleet: FleetSearch, inside: Meetings, across: Meetings, leaves: Mapping[str, list[str]]
) -> bool:
    """Accuse what is between all leaves, if pairs across are slow everywhere."""
    near, far = inside.rates(), across.rates()
    if sum(len(nodes) >= LEAST_OF_LEAF for nodes in leaves.values()) < 2:
        return False  # a single node could be all of a leaf
    if not near or not far or statistics.median(far) >= fleet.share * statistics.median(near):
        return False
    slow = sum(rate < fleet.share * statistics.median(near) for rate in far)
    if 4 * slow < 3 * len(far):
        return False  # some are: one leaf, or some paths
    share = statistics.median(far) / statistics.median(near)
    why = (
        f"pairs of nodes under different leaves reach {100 * share:.0f} % of what pairs under one "
        "leaf do, whichever the leaves: the spines or all uplinks carry too little"
    )
    nodes = tuple(node for nodes in leaves.values() for node in nodes)
    fleet.parts.append(FaultyPart("fleet", nodes, True, why, "between leaves"))
    return True


def accuse_uplinks(
    fleet: FleetSearch, by_leaf: WitnessSearch, across: Meetings, leaves: Mapping[str, list[str]]
) -> None:
    """Accuse leaves that pass inside and fail with other leaves."""
    for name, bad in by_leaf.accused().items():
        if _bad_share(across, leaves[name]) < _MOST_OF_LEAF:
            continue  # its uplinks are shared: they slow all of its nodes
        why = f"its nodes pass among themselves and fail with those of {some(bad, 3)}"
        proven = not by_leaf.meetings.partners(name, bad=False)
        fleet.parts.append(FaultyPart("leaf", tuple(leaves[name]), proven, why, name))
    _accuse_leaf_pairs(fleet, by_leaf, across, leaves)


def _accuse_leaf_pairs(
    fleet: FleetSearch, by_leaf: WitnessSearch, across: Meetings, leaves: Mapping[str, list[str]]
) -> None:
    """Accuse two leaves whose nodes all fail with each other, if that is one pair of leaves."""
    accused, cleared = by_leaf.accused(), set(by_leaf.cleared())
    pairs = [
        pair
        for pair in by_leaf.bad_pairs()
        if accused.keys().isdisjoint(pair) and _is_whole(across, leaves[pair[0]], leaves[pair[1]])
    ]
    if len(pairs) != 1:
        return  # of several, the paths are to be seen by their nodes
    [(one, other)] = pairs
    which = "each passes with other leaves" if cleared.issuperset((one, other)) else EITHER
    nodes = (*leaves[one], *leaves[other])
    why = f"their nodes fail with each other; {which}"
    fleet.parts.append(FaultyPart("leaf", nodes, False, why, f"{one} and {other}"))


def _bad_share(across: Meetings, nodes: Sequence[str]) -> float:
    """Return how many of the tests of nodes with other leaves were bad."""
    bad, good = (sum(len(across.partners(n, bad=it)) for n in nodes) for it in (True, False))
    return bad / max(1, bad + good)


def _is_whole(across: Meetings, one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether every test between two leaves was bad."""
    near = set(other)
    met = [(a, b) for a in one for b in across.partners(a, bad=False) if b in near]
    return not met
