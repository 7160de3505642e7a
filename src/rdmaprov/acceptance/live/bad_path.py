"""Which one path of thousands is bad: all-to-alls by rail, among ever fewer nodes.

In an all-reduce neighbors alone meet, and pairs of a fleet are too many. In an all-to-all of the
GPUs at one place of their nodes all nodes meet on one rail, and the slowest path sets its pace.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

from rdmaprov.acceptance.evidence.floor import FAR_BELOW
from rdmaprov.acceptance.live.ranks import Group, LiveRanks, rail_of
from rdmaprov.isolation.model import FaultyPart

# By the number of the GPU: its groups that are slow.
Slow = Mapping[int, set[Group]]


def find_bad_paths(live: LiveRanks) -> list[FaultyPart]:
    """Return the pairs of nodes whose path on one rail is bad, one for each rail at most."""

    def slow_among(groups: Sequence[Group]) -> Slow:
        return slow_rails(live.measure_gpus(groups, "all_to_all"))

    names = tuple(node.name for node in live.site.nodes if node.name not in live.lost)
    found = []
    for local, slow in slow_among([names]).items():

        def slow_on_rail(groups: Sequence[Group], local: int = local) -> set[Group]:
            return slow_among(groups)[local]

        if slow and (pair := narrow(names, slow_on_rail)):
            why = f"all-to-alls are slow on GPU {local}'s rail only when both are in one"
            node = next(node for node in live.site.nodes if node.name == pair[0])
            rail = rail_of(node, local, live.site.per_node)
            found.append(FaultyPart("pair", pair, True, why, rail=rail))
    return found


def slow_rails(rates: Mapping[tuple[Group, int], float]) -> Slow:
    """Return the groups that are slow, by GPU: each beside the same nodes' other rails.

    Crowded spines lower all rails alike; a path with a fault lowers its own.

    Args:
        rates: GB/s, by group of nodes and number of the GPU.
    """
    groups = {group for group, _ in rates}
    usual = {
        group: statistics.median(rate for (own, _), rate in rates.items() if own == group)
        for group in groups
    }
    locals_ = sorted({local for _, local in rates})
    return {
        at: {g for g in groups if rates.get((g, at), usual[g]) < FAR_BELOW * usual[g]}
        for at in locals_
    }


def narrow(names: Group, slow: Callable[[Sequence[Group]], set[Group]]) -> Group:
    """Return the two nodes between which the path is bad; empty if no half is slow again.

    Halves are tested side by side. If both are good, the path crosses them: each half is halved
    again, and quarters of different halves are tested together, until two nodes stand.

    Args:
        slow: returns those groups of nodes that are slow on the rail, of some that measure at once.
    """
    while len(names) > 2:
        halves = _halves(names)
        bad = slow([half for half in halves if len(half) > 1])
        if not bad:
            return _crossing(halves, slow)
        names = next(half for half in halves if half in bad)
    return names if slow([names]) else ()


def _crossing(halves: tuple[Group, Group], slow: Callable[[Sequence[Group]], set[Group]]) -> Group:
    """Return one node of each half, between which the path is bad; empty if none is found."""
    one, other = halves
    while len(one) > 1 or len(other) > 1:
        for choices in _meetings(one, other):
            bad = slow([first + second for first, second in choices])
            hit = next((pair for pair in choices if pair[0] + pair[1] in bad), None)
            if hit is not None:
                one, other = hit
                break
        else:
            return ()
    return one + other if slow([one + other]) else ()


def _meetings(one: Group, other: Group) -> Iterator[list[tuple[Group, Group]]]:
    """Yield in two rounds the quarters that meet; a half of one node has one quarter."""
    first, second = _halves(one), _halves(other)
    for turned in (False, True):
        there = second[::-1] if turned else second
        pairs = [(a, b) for a, b in zip(first, there, strict=True) if a and b]
        if pairs:
            yield pairs


def _halves(names: Group) -> tuple[Group, Group]:
    middle = (len(names) + 1) // 2
    return names[:middle], names[middle:]
