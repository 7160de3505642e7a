"""Where a fault is: in a node, a leaf switch, between two nodes, or in the fabric as a whole.

Pairs inside leaves come first, then pairs across, all nodes at once in each round: a fault of a
node shows in the first, one of a leaf's uplinks or of the spines only in the second.
"""

import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest

from rdmaprov.isolation.accuse import (
    LEAST_OF_LEAF,
    FleetSearch,
    accuse_all,
    accuse_intermittent,
    accuse_nodes,
    accuse_pairs,
    accuse_uplinks,
    hangs,
)
from rdmaprov.isolation.meetings import Meetings, Pair, round_robin
from rdmaprov.isolation.model import FaultyPart
from rdmaprov.isolation.witnesses import Measure, WitnessSearch

__all__ = ["FleetSearch", "locate"]
# Up to this many nodes, and leaves, every pair is tested: it takes seconds, and few compare badly.
_ALL_PAIRS, _ALL_LEAVES = 16, 8


def locate(fleet: FleetSearch) -> list[FaultyPart]:
    """Return what is at fault in a fleet; see the module."""
    inside = _search_inside(fleet)
    if len(fleet.leaves) > 1:
        _search_across(fleet, inside.meetings)
        accuse_pairs(fleet, inside, passing=False)
    return fleet.parts


def _search_inside(fleet: FleetSearch) -> WitnessSearch:
    """Test pairs inside leaves; accuse nodes, pairs, and leaves of which no two nodes pass.

    A pair of which no node passes is left to the search across: it has more witnesses.
    """
    leaf_of = fleet.leaf_of
    search = WitnessSearch(
        fleet.nodes,
        fleet.test,
        _side_by_side([_schedule(nodes) for nodes in fleet.leaves.values()]),
        lambda one, other: leaf_of.get(one, "") == leaf_of.get(other, ""),
        Meetings(fleet.share),
    )
    largest = max(len(nodes) for nodes in fleet.leaves.values())
    first = 2 + (largest if largest <= _ALL_PAIRS else fleet.rounds)
    search.run(1 if fleet.is_joined else first)
    _accuse_leaves(fleet, search)
    accuse_nodes(fleet, search)
    accuse_intermittent(fleet, search)
    accuse_pairs(fleet, search, passing=True if len(fleet.leaves) > 1 else None)
    return search


def _schedule(nodes: Sequence[str]) -> Iterator[tuple[Pair, ...]]:
    """Yield rounds of pairs: neighbours in rank order first, as rings join these; then all."""
    for first in (0, 1):
        yield tuple(zip(nodes[first::2], nodes[first + 1 :: 2], strict=False))
    mixed = list(nodes)
    random.Random(len(mixed)).shuffle(mixed)  # noqa: S311 - so that no order of faults is met
    yield from round_robin(mixed)


def _side_by_side(rounds: Sequence[Iterator[tuple[Pair, ...]]]) -> Iterator[list[Pair]]:
    for each in zip_longest(*rounds, fillvalue=()):
        yield list(chain.from_iterable(each))


def _accuse_leaves(fleet: FleetSearch, search: WitnessSearch) -> None:
    """Accuse leaves in which most nodes are bad, with each other and with witnesses outside."""
    bad = {*search.suspects(), *search.accused()}
    for name, nodes in fleet.leaves.items():
        own = [node for node in nodes if node in bad]
        if not name or len(own) < LEAST_OF_LEAF or 2 * len(own) <= len(nodes):
            continue
        passed = _passed_outside(fleet, search, own)
        if passed is None or not passed:
            why = f"{len(own)} of its {len(nodes)} nodes fail with each other"
            why += ", and with nodes of other leaves that pass" if passed is not None else ""
            proven = len(own) == len(nodes) and passed is not None
            hang = hangs(search, own)
            fleet.parts.append(FaultyPart("leaf", tuple(nodes), proven, why, name, hang=hang))


def _passed_outside(
    fleet: FleetSearch, search: WitnessSearch, own: Sequence[str]
) -> list[str] | None:
    """Return which nodes of a leaf pass with nodes of other leaves; None without any of those."""
    home = fleet.leaf_of.get(own[0], "")
    outside = [node for node in search.cleared() if fleet.leaf_of.get(node, "") != home]
    pairs = list(zip(own, outside, strict=False))
    if len(pairs) < len(own):
        return None
    reached = fleet.test(pairs)
    search.meetings.add(reached)
    least = search.meetings.least_gb_s
    return [pair[0] for pair, rate in reached.items() if rate >= least]


def _search_across(fleet: FleetSearch, inside: Meetings) -> None:
    """Test pairs of nodes under different leaves, leaf by leaf, then node by node."""
    accused = fleet.accused()
    leaves = {
        name: [node for node in nodes if node not in accused]
        for name, nodes in fleet.leaves.items()
    }
    leaves = {name: nodes for name, nodes in leaves.items() if nodes}
    if len(leaves) < 2:
        return
    across = Meetings(fleet.share)
    by_leaf = WitnessSearch(
        list(leaves),
        _leaf_measure(fleet, leaves, across),
        round_robin(list(leaves)),
        meetings=Meetings(fleet.share),
    )
    by_leaf.run(len(leaves) if len(leaves) <= _ALL_LEAVES else fleet.rounds)
    if accuse_all(fleet, inside, across, leaves):
        return
    accuse_uplinks(fleet, by_leaf, inside, across, leaves)
    rest = [node for nodes in leaves.values() for node in nodes if node not in fleet.accused()]
    known = {node: name for name, nodes in leaves.items() for node in nodes}
    if len({known[node] for node in rest}) < 2:
        return
    by_node = WitnessSearch(
        rest,
        fleet.test,
        _across_schedule(leaves, rest),
        lambda one, other: known[one] != known[other],
        across,
    )
    by_node.run(2 + (len(rest) if len(rest) <= _ALL_PAIRS else 0))
    undecided = _undecided(inside, across)
    across.add({pair: rate for pair, rate in undecided.items() if {*pair} <= {*rest}})
    by_node.run(0)
    accuse_nodes(fleet, by_node)
    accuse_intermittent(fleet, by_node, inside)
    accuse_pairs(fleet, by_node, inside)


def _undecided(inside: Meetings, across: Meetings) -> dict[Pair, float]:
    """Return the slow pairs inside leaves of which no node passed, by what pairs across reach.

    A path inside a leaf carries what one across does, at least: so a lone one is compared, too.
    """
    least = max(inside.least_gb_s, across.least_gb_s)
    reached = zip(inside.pairs(), inside.rates(), strict=True)
    slow = {pair: rate for pair, rate in reached if rate < least}
    passing = {node for pair in inside.pairs() if pair not in slow for node in pair}
    scale = across.least_gb_s / least if least else 1.0
    return {pair: scale * rate for pair, rate in slow.items() if passing.isdisjoint(pair)}


def _leaf_measure(fleet: FleetSearch, leaves: Mapping[str, list[str]], across: Meetings) -> Measure:
    """Return how two leaves are tested: all of their nodes in pairs, half of which are slower."""

    def measure(asked: Sequence[Pair]) -> Mapping[Pair, float]:
        members = {pair: _matching(leaves, pair, fleet.tests) for pair in asked}
        reached = fleet.test([each for pairs in members.values() for each in pairs])
        across.add(reached)
        return {
            pair: statistics.median(reached[each] for each in pairs if each in reached)
            for pair, pairs in members.items()
            if any(each in reached for each in pairs)
        }

    return measure


def _matching(leaves: Mapping[str, list[str]], pair: Pair, shift: int) -> list[Pair]:
    """Return pairs of the nodes of two leaves; another shift gives others."""
    one, other = leaves[pair[0]], leaves[pair[1]]
    return [
        (node, other[(number + shift) % len(other)])
        for number, node in enumerate(one[: len(other)])
    ]


def _across_schedule(leaves: Mapping[str, list[str]], nodes: Sequence[str]) -> Iterator[list[Pair]]:
    """Yield rounds of pairs across leaves: those that a ring joins first, then others."""
    known, there = {n: name for name, own in leaves.items() for n in own}, set(nodes)
    for first in (0, 1):
        joined = zip(nodes[first::2], [*nodes, nodes[0]][first + 1 :: 2], strict=False)
        yield [(one, other) for one, other in joined if known[one] != known[other]]
    for shift in (*range(1, max(len(own) for own in leaves.values())), 0):
        for meetings in round_robin(list(leaves)):
            pairs = [each for pair in meetings for each in _matching(leaves, pair, shift)]
            yield [pair for pair in pairs if there.issuperset(pair)]
