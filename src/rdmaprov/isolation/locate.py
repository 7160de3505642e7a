"""Where a fault is: in a node, a leaf switch, between two nodes, or in the fabric as a whole.

Pairs inside leaves come first, then pairs across, all nodes at once in each round: a fault of a
node shows in the first, one of a leaf's uplinks or of the spines only in the second.
"""

from __future__ import annotations

import random
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest

from rdmaprov.isolation.compare import BAD_SHARE
from rdmaprov.isolation.intermittent import IntermittentSearch
from rdmaprov.isolation.meetings import Meetings, Pair, disjoint
from rdmaprov.isolation.model import FaultyPart, IsolationResult
from rdmaprov.isolation.pairs import round_robin
from rdmaprov.isolation.witnesses import Measure, WitnessSearch

# Up to this many nodes, and leaves, every pair is tested: it takes seconds, and few compare badly.
_ALL_PAIRS, _ALL_LEAVES = 16, 8
# Of more pairs than this that fail without a node in common, a cause for each is not likely.
_MOST_PAIRS = 3
# A fault that is there in a third of the time fails four times in a row once in a hundred.
_MORE_TESTS = 3
_LEAST_OF_LEAF = 3
_MOST_OF_LEAF = 0.75
_EITHER = "the tests cannot tell which of the two is bad"


@dataclass
class FleetSearch:
    """The nodes of a search, and what is found of them.

    Args:
        nodes: names, in the site's order.
        measure: tests pairs of nodes side by side; returns what they reached, in GB/s.
        leaf_of: the leaf switch of each node; empty where it is not known.
        share: of what good pairs reach, below which a pair is bad.
        rounds: of pairs inside leaves, and as many across, before any question.

    """

    nodes: Sequence[str]
    measure: Measure
    leaf_of: Mapping[str, str] = field(default_factory=dict)
    share: float = BAD_SHARE
    rounds: int = 2
    parts: list[FaultyPart] = field(default_factory=list)
    unsure: list[str] = field(default_factory=list)
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


def locate(fleet: FleetSearch) -> IsolationResult:
    """Return what is at fault in a fleet; see the module."""
    inside = _search_inside(fleet)
    if len(fleet.leaves) > 1:
        _search_across(fleet, inside)
    return IsolationResult(tuple(fleet.parts), tuple(fleet.unsure), fleet.tests)


def _search_inside(fleet: FleetSearch) -> Meetings:
    """Test pairs inside leaves; accuse nodes, pairs, and leaves of which no two nodes pass."""
    leaf_of = fleet.leaf_of
    search = WitnessSearch(
        fleet.nodes,
        fleet.test,
        _side_by_side([_schedule(nodes) for nodes in fleet.leaves.values()]),
        lambda one, other: leaf_of.get(one, "") == leaf_of.get(other, ""),
        Meetings(fleet.share),
    )
    largest = max(len(nodes) for nodes in fleet.leaves.values())
    search.run(2 + (largest if largest <= _ALL_PAIRS else fleet.rounds))
    _accuse_leaves(fleet, search)
    _accuse_nodes(fleet, search)
    _accuse_intermittent(fleet, search)
    _accuse_pairs(fleet, search)
    return search.meetings


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
        if not name or len(own) < _LEAST_OF_LEAF or 2 * len(own) <= len(nodes):
            continue
        passed = _passed_outside(fleet, search, own)
        if passed is None or not passed:
            why = f"{len(own)} of its {len(nodes)} nodes fail with each other"
            why += ", and with nodes of other leaves that pass" if passed is not None else ""
            sure = "high" if len(own) == len(nodes) and passed is not None else "low"
            hang = _hang(search, own)
            fleet.parts.append(FaultyPart("leaf", tuple(nodes), sure, why, name, hang=hang))


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


def _accuse_nodes(fleet: FleetSearch, search: WitnessSearch) -> None:
    """Accuse nodes that fail with witnesses; a group that passes among itself shares a switch."""
    found = {n: bad for n, bad in search.accused().items() if n not in fleet.accused()}
    if len(found) >= _LEAST_OF_LEAF and (group := _shared(fleet, search, list(found))):
        why = "they pass among themselves and fail with others: they share a switch or its uplinks"
        fleet.parts.append(FaultyPart("leaf", tuple(group), "low", why, _leaf_name(fleet, group)))
        found = {node: bad for node, bad in found.items() if node not in group}
    for node, bad in found.items():
        passes = search.meetings.partners(node, bad=False)
        why = f"it fails with {_names(bad)}, which pass without it"
        if passes:
            why += f", and passed with {_names(passes)}: it comes and goes"
        sure = "low" if passes else "high"
        hang = _hang(search, [node])
        part = FaultyPart("node", (node,), sure, why, hang=hang, comes_and_goes=bool(passes))
        fleet.parts.append(part)


def _accuse_intermittent(fleet: FleetSearch, search: WitnessSearch, *before: Meetings) -> None:
    """Accuse nodes that are slow at times, with partners that never are without them."""
    for each in IntermittentSearch(search, fleet.accused(), before).run():
        why = (
            f"it was slow in {each.slow} of {each.tests} tests, with {_names(each.partners)}, "
            "which were never slow without it: it comes and goes"
        )
        seen = (*before, search.meetings)
        hang = any(one.hangs(each.node, it) for one in seen for it in each.partners)
        part = FaultyPart("node", (each.node,), "low", why, hang=hang, comes_and_goes=True)
        fleet.parts.append(part)


def _shared(fleet: FleetSearch, search: WitnessSearch, nodes: list[str]) -> list[str]:
    """Return those of several bad nodes that pass among themselves, if most of them do."""
    pairs = next(round_robin(nodes), ())
    reached = fleet.test(pairs)
    least = search.meetings.least_gb_s
    good = [node for pair, rate in reached.items() if rate >= least for node in pair]
    return good if len(good) >= max(_LEAST_OF_LEAF, len(nodes) / 2) else []


def _leaf_name(fleet: FleetSearch, nodes: Sequence[str]) -> str:
    names = {fleet.leaf_of.get(node, "") for node in nodes}
    return names.pop() if len(names) == 1 else ""


def _accuse_pairs(fleet: FleetSearch, search: WitnessSearch, *before: Meetings) -> None:
    """Accuse pairs that fail although both pass with others, or the paths if they are many."""
    accused, cleared = fleet.accused(), set(search.cleared())
    pairs = [pair for pair in search.bad_pairs() if accused.isdisjoint(pair)]
    if fleet.share < BAD_SHARE:  # over gloo, whatever else ran there was what came and went
        again = _pass_again(fleet, search, pairs)
        pairs = [pair for pair in pairs if pair not in again]
    if len([pair for pair in pairs if cleared.issuperset(pair)]) > _MOST_PAIRS:
        why = (
            f"{len(pairs)} pairs of nodes are slow that have no node and no leaf in common: flows "
            "share paths, or some paths carry less"
        )
        nodes = tuple(dict.fromkeys(node for pair in pairs for node in pair))
        fleet.parts.append(FaultyPart("fleet", nodes, "low", why))
        return
    pairs = _accuse_common(fleet, pairs)
    passed = _pass_again(fleet, search, pairs)
    if passed:
        _accuse_intermittent(fleet, search, *before)
        pairs = [pair for pair in pairs if fleet.accused().isdisjoint(pair)]
    for pair in pairs:
        sure = cleared.issuperset(pair) and pair not in passed
        why = "each passes with other nodes" if cleared.issuperset(pair) else _EITHER
        why += ", and they passed when tested again: it comes and goes" if pair in passed else ""
        hang = search.meetings.hangs(*pair)
        confidence = "high" if sure else "low"
        fleet.parts.append(
            FaultyPart("pair", pair, confidence, f"they fail together; {why}", hang=hang)
        )


def _accuse_common(fleet: FleetSearch, pairs: Sequence[Pair]) -> list[Pair]:
    """Accuse a node that several bad pairs have in common; return the other pairs."""
    count = Counter(node for pair in pairs for node in pair)
    shared = [node for node, times in count.most_common() if times > 1]
    for node in shared:
        others = [each for pair in pairs if node in pair for each in pair if each != node]
        if len(others) > 1 and not set(others) & set(shared):
            why = f"it fails with {_names(others)}, which pass with others, as it does itself"
            fleet.parts.append(FaultyPart("node", (node,), "low", why, comes_and_goes=True))
    return [pair for pair in pairs if not set(pair) & set(shared)]


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
        list(leaves), _leaf_measure(fleet, leaves, across), round_robin(list(leaves)),
        meetings=Meetings(fleet.share),
    )  # fmt: skip
    by_leaf.run(len(leaves) if len(leaves) <= _ALL_LEAVES else fleet.rounds)
    if _accuse_all(fleet, inside, across, leaves):
        return
    _accuse_uplinks(fleet, by_leaf, across, leaves)
    rest = [node for nodes in leaves.values() for node in nodes if node not in fleet.accused()]
    known = {node: name for name, nodes in leaves.items() for node in nodes}
    if len({known[node] for node in rest}) < 2:
        return
    by_node = WitnessSearch(
        rest, fleet.test, _across_schedule(leaves, rest),
        lambda one, other: known[one] != known[other], across,
    )  # fmt: skip
    by_node.run(2 + (len(rest) if len(rest) <= _ALL_PAIRS else 0))
    _accuse_nodes(fleet, by_node)
    _accuse_intermittent(fleet, by_node, inside)
    _accuse_pairs(fleet, by_node, inside)


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


def _accuse_all(
    fleet: FleetSearch, inside: Meetings, across: Meetings, leaves: Mapping[str, list[str]]
) -> bool:
    """Accuse what is between all leaves, if pairs across are slow everywhere."""
    near, far = inside.rates(), across.rates()
    if sum(len(nodes) >= _LEAST_OF_LEAF for nodes in leaves.values()) < 2:
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
    fleet.parts.append(FaultyPart("fleet", nodes, "high", why, "between leaves"))
    return True


def _accuse_uplinks(
    fleet: FleetSearch, by_leaf: WitnessSearch, across: Meetings, leaves: Mapping[str, list[str]]
) -> None:
    """Accuse leaves that pass inside and fail with other leaves."""
    for name, bad in by_leaf.accused().items():
        if _bad_share(across, leaves[name]) < _MOST_OF_LEAF:
            continue  # its uplinks are shared: they slow all of its nodes
        why = f"its nodes pass among themselves and fail with those of {_names(bad)}"
        sure = "low" if by_leaf.meetings.partners(name, bad=False) else "high"
        fleet.parts.append(FaultyPart("leaf", tuple(leaves[name]), sure, why, name))
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
    which = "each passes with other leaves" if cleared.issuperset((one, other)) else _EITHER
    nodes = (*leaves[one], *leaves[other])
    why = f"their nodes fail with each other; {which}"
    fleet.parts.append(FaultyPart("leaf", nodes, "low", why, f"{one} and {other}"))


def _bad_share(across: Meetings, nodes: Sequence[str]) -> float:
    """Return how many of the tests of nodes with other leaves were bad."""
    bad, good = (sum(len(across.partners(n, bad=it)) for n in nodes) for it in (True, False))
    return bad / max(1, bad + good)


def _is_whole(across: Meetings, one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether every test between two leaves was bad."""
    near = set(other)
    met = [(a, b) for a in one for b in across.partners(a, bad=False) if b in near]
    return not met


def _hang(search: WitnessSearch, nodes: Sequence[str]) -> bool:
    meetings = search.meetings
    return any(meetings.hangs(n, it) for n in nodes for it in meetings.partners(n, bad=True))


def _names(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
