"""Nodes and pairs of nodes that the tests of pairs show to be at fault."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rdmaprov.isolation.compare import BAD_SHARE
from rdmaprov.isolation.intermittent import IntermittentSearch
from rdmaprov.isolation.meetings import Meetings, Pair, disjoint, round_robin
from rdmaprov.isolation.model import FaultyPart
from rdmaprov.isolation.witnesses import Measure, WitnessSearch
from rdmaprov.words import some

_MOST_OF_LEAF = 0.75
# Of more pairs than this that fail without a node in common, a cause for each is not likely.
_MOST_PAIRS = 3
# A fault that is there in a third of the time fails four times in a row once in a hundred.
_MORE_TESTS = 3
# Of more accused nodes than this, each alone would take long, and one cause for all is not likely.
_FEW = 4
# A group of fewer bad nodes than this is nodes, not a leaf.
LEAST_OF_LEAF = 3
EITHER = "the tests cannot tell which of the two is bad"


def accuse_all(
    fleet: FleetSearch, inside: Meetings, across: Meetings, leaves: Mapping[str, list[str]]
) -> bool:
    """Accuse what is between all leaves, if pairs across are slow everywhere."""
    near, far = inside.rates(), across.rates()
    sizes = [len(nodes) for nodes in leaves.values()]
    if sum(size >= LEAST_OF_LEAF for size in sizes) < 2 and sum(size > 1 for size in sizes) < 3:
        return False  # a single node could be all of a leaf, and of two leaves either is
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
    fleet: FleetSearch,
    by_leaf: WitnessSearch,
    inside: Meetings,
    across: Meetings,
    leaves: Mapping[str, list[str]],
) -> None:
    """Accuse leaves that pass inside and fail with other leaves."""
    for name, bad in by_leaf.accused().items():
        own = leaves[name]
        if (
            not any(inside.partners(node, bad=False) for node in own)
            or _bad_share(across, own) < _MOST_OF_LEAF
        ):
            continue  # its uplinks are shared: they slow all of its nodes
        why = f"its nodes pass among themselves and fail with those of {some(bad, 3)}"
        proven = not by_leaf.meetings.partners(name, bad=False)
        fleet.parts.append(FaultyPart("leaf", tuple(own), proven, why, name))
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


def accuse_nodes(fleet: FleetSearch, search: WitnessSearch) -> None:
    """Accuse nodes that fail with witnesses; a group that passes among itself shares a switch."""
    found = {n: bad for n, bad in search.accused().items() if n not in fleet.accused()}
    if len(found) >= LEAST_OF_LEAF and (group := _shared(fleet, search, list(found))):
        why = "they pass among themselves and fail with others: they share a switch or its uplinks"
        fleet.parts.append(FaultyPart("leaf", tuple(group), False, why, _leaf_name(fleet, group)))
        found = {node: bad for node, bad in found.items() if node not in group}
    found, leaves = _without_victims(fleet, search, found), fleet.leaves
    for node, bad in found.items():
        passes = search.meetings.partners(node, bad=False)
        why = f"it fails with {some(bad, 3)}, which pass without it"
        if passes:
            why += f", and passed with {some(passes, 3)}: it comes and goes"
        proven = not passes
        leaf = fleet.leaf_of.get(node, "")
        if leaf and leaves[leaf] == [node]:
            why += f"; no other node of {leaf} was tested, whose uplinks would look the same"
            proven = False
        hang = hangs(search, [node])
        part = FaultyPart("node", (node,), proven, why, hang=hang, comes_and_goes=bool(passes))
        fleet.parts.append(part)


def _shared(fleet: FleetSearch, search: WitnessSearch, nodes: list[str]) -> list[str]:
    """Return those of several bad nodes that pass among themselves, if most of them do."""
    pairs = next(round_robin(nodes), ())
    reached = fleet.test(pairs)
    least = search.meetings.least_gb_s
    good = [node for pair, rate in reached.items() if rate >= least for node in pair]
    return good if len(good) >= max(LEAST_OF_LEAF, len(nodes) / 2) else []


def _without_victims(
    fleet: FleetSearch, search: WitnessSearch, found: dict[str, list[str]]
) -> dict[str, list[str]]:
    """Return a few accused nodes without those that pass while the others of them rest.

    What a bad node sends can slow one that shares its leaf's uplinks, with whomever it is tested.
    """
    if not 1 < len(found) <= _FEW:
        return found
    left: dict[str, list[str]] = {}
    for node, bad in found.items():
        witness = next((it for it in bad if it not in found), "")
        if witness and not hangs(search, [node]):
            pair = node, witness
            reached = fleet.test([pair, *search.fill({*found, *pair})])
            if reached.get(pair, 0.0) >= search.meetings.least_gb_s:
                fleet.victims.add(node)
                continue
        left[node] = bad
    return left


def _leaf_name(fleet: FleetSearch, nodes: Sequence[str]) -> str:
    names = {fleet.leaf_of.get(node, "") for node in nodes}
    return names.pop() if len(names) == 1 else ""


def accuse_intermittent(fleet: FleetSearch, search: WitnessSearch, *before: Meetings) -> None:
    """Accuse nodes that are slow at times, with partners that never are without them."""
    for each in IntermittentSearch(search, fleet.accused() | fleet.victims, before).run():
        why = (
            f"it was slow in {each.slow} of {each.tests} tests, with {some(each.partners, 3)}, "
            "which were never slow without it: it comes and goes"
        )
        seen = (*before, search.meetings)
        hang = any(one.hangs(each.node, it) for one in seen for it in each.partners)
        part = FaultyPart("node", (each.node,), False, why, hang=hang, comes_and_goes=True)
        fleet.parts.append(part)


def accuse_pairs(
    fleet: FleetSearch, search: WitnessSearch, *before: Meetings, passing: bool | None = None
) -> None:
    """Accuse pairs that fail although both pass with others, or the paths if they are many.

    Args:
        before: of an earlier search.
        passing: only pairs of which a node passes, or only the others; None for all.
    """
    accused, cleared = fleet.accused() | fleet.victims, set(search.cleared())
    pairs = [pair for pair in search.bad_pairs() if accused.isdisjoint(pair)]
    if passing is not None:
        pairs = [pair for pair in pairs if cleared.isdisjoint(pair) is not passing]
    if fleet.share < BAD_SHARE:  # over gloo, whatever else ran there was what came and went
        again = _pass_again(fleet, search, pairs)
        pairs = [pair for pair in pairs if pair not in again]
    if len([pair for pair in pairs if cleared.issuperset(pair)]) > _MOST_PAIRS:
        why = (
            f"{len(pairs)} pairs of nodes are slow that have no node and no leaf in common: flows "
            "share paths, or some paths carry less"
        )
        nodes = tuple(dict.fromkeys(node for pair in pairs for node in pair))
        fleet.parts.append(FaultyPart("fleet", nodes, False, why))
        return
    pairs = _without_collisions(fleet, search, _accuse_common(fleet, pairs))
    passed = _pass_again(fleet, search, pairs)
    if passed:
        accuse_intermittent(fleet, search, *before)
        pairs = [pair for pair in pairs if fleet.accused().isdisjoint(pair)]
    for pair in pairs:
        sure = cleared.issuperset(pair) and pair not in passed
        why = "each passes with other nodes" if cleared.issuperset(pair) else EITHER
        why += ", and they passed when tested again: it comes and goes" if pair in passed else ""
        hang = search.meetings.hangs(*pair)
        fleet.parts.append(FaultyPart("pair", pair, sure, f"they fail together; {why}", hang=hang))


def _accuse_common(fleet: FleetSearch, pairs: Sequence[Pair]) -> list[Pair]:
    """Accuse a node that several bad pairs have in common; return the other pairs."""
    count = Counter(node for pair in pairs for node in pair)
    shared = [node for node, times in count.most_common() if times > 1]
    for node in shared:
        others = [each for pair in pairs if node in pair for each in pair if each != node]
        if len(others) > 1 and not set(others) & set(shared):
            why = f"it fails with {some(others, 3)}, which pass with others, as it does itself"
            fleet.parts.append(FaultyPart("node", (node,), False, why, comes_and_goes=True))
    return [pair for pair in pairs if not set(pair) & set(shared)]


def _without_collisions(
    fleet: FleetSearch, search: WitnessSearch, pairs: Sequence[Pair]
) -> list[Pair]:
    """Accuse the paths where pairs are slow beside each other alone; return the other pairs.

    What one of them sends shares a link with what another does: a path is bad by itself.
    """
    side_by_side = disjoint((p for p in pairs if not search.meetings.hangs(*p)), set())
    if len(side_by_side) < 2:
        return list(pairs)
    least, rates = search.meetings.least_gb_s, dict[Pair, float]()
    for pair in side_by_side:
        rates |= fleet.test([pair])
    again = fleet.test(side_by_side)
    free = [p for p in side_by_side if rates.get(p, 0.0) >= least > again.get(p, least)]
    if len(free) < 2:
        return list(pairs)
    why = f"{len(free)} pairs of nodes are slow beside each other alone: their flows share links"
    nodes = tuple(node for pair in free for node in pair)
    fleet.parts.append(FaultyPart("fleet", nodes, False, why))
    return [pair for pair in pairs if pair not in free]


def _pass_again(fleet: FleetSearch, search: WitnessSearch, pairs: Sequence[Pair]) -> set[Pair]:
    """Return the bad pairs that pass in one of some more tests.

    A path is bad each time. A node whose fault comes and goes may fail with one partner alone.
    """
    asked = [pair for pair in pairs if not search.meetings.hangs(*pair)]
    least, passed = search.meetings.least_gb_s, set[Pair]()
    for _ in range(_MORE_TESTS):
        rest = asked
        while rest:
            now = disjoint(rest, set())
            reached = fleet.test(now)
            search.meetings.add(reached)
            passed |= {pair for pair, rate in reached.items() if rate >= least}
            rest = [pair for pair in rest if pair not in now]
    return passed


def hangs(search: WitnessSearch, nodes: Sequence[str]) -> bool:
    """Return whether any bad test of these nodes hung."""
    meetings = search.meetings
    return any(meetings.hangs(n, it) for n in nodes for it in meetings.partners(n, bad=True))


@dataclass
class FleetSearch:
    """The nodes of a search, and what is found of them.

    Args:
        nodes: names, in the site's order.
        measure: tests pairs of nodes side by side; returns what they reached, in GB/s.
        leaf_of: the leaf switch of each node; empty where it is not known.
        share: of what good pairs reach, below which a pair is bad.
        rounds: of pairs inside leaves, and as many across, before any question.
        is_joined: whether each leaf is proven by itself: one round inside is to compare with.
        victims: nodes that are slow beside those at fault alone.
    """

    nodes: Sequence[str]
    measure: Measure
    leaf_of: Mapping[str, str] = field(default_factory=dict)
    share: float = BAD_SHARE
    rounds: int = 2
    is_joined: bool = False
    parts: list[FaultyPart] = field(default_factory=list)
    victims: set[str] = field(default_factory=set)
    tests: int = 0

    @property
    def leaves(self) -> dict[str, list[str]]:
        """Return the nodes of each leaf; all of them as one if the site does not say."""
        found: dict[str, list[str]] = {}
        for node in self.nodes:
            found.setdefault(self.leaf_of.get(node, ""), []).append(node)
        return found

    def accused(self) -> set[str]:
        """Return the nodes that are part of something at fault."""
        return {node for part in self.parts for node in part.nodes}

    def test(self, pairs: Sequence[Pair]) -> Mapping[Pair, float]:
        """Return what pairs reached together, and count the round."""
        self.tests += 1
        return self.measure(pairs)
