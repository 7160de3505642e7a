"""The load that flows put on each link, against what the topology allows."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import ceil

from rdmaprov.subnet.fabric import Hca, SubnetGraph, TrunkHop, distances
from rdmaprov.subnet.names import natural
from rdmaprov.subnet.routes import Routes

Flow = tuple[Hca, Hca]
# Beyond this many sets of links, only single ones, neighbours in size and all are compared: the
# bound on the load is then lower, never higher, than the true one.
_MOST_SETS = 10
_Groups = dict[frozenset[int], int]


def rails(fabric: SubnetGraph) -> list[list[Hca]]:
    """Return the HCAs of each rail, in the order of their hosts' names.

    A rail is a device name. HCAs whose description has none are one rail.
    """
    found: dict[tuple[str, int], list[Hca]] = defaultdict(list)
    for hca in fabric.hcas:
        if hca.end.lid:
            found[hca.at.device, hca.end.port].append(hca)
    return [
        sorted(found[key], key=lambda hca: (natural(hca.at.host), hca.end.guid))
        for key in sorted(found, key=lambda key: (natural(key[0]), key[1]))
    ]


def ring(rail: list[Hca]) -> Iterator[Flow]:
    """Yield a ring in the order of the names, as a scheduler that knows the fabric orders nodes."""
    if len(rail) > 1:
        yield from zip(rail, [*rail[1:], rail[0]], strict=True)


def ringx(rail: list[Hca]) -> Iterator[Flow]:
    """Yield a ring with the nodes dealt over the leaves, so that each hop crosses a spine."""
    leaves: dict[int, list[Hca]] = defaultdict(list)
    for hca in rail:
        leaves[hca.switch].append(hca)
    most = max(map(len, leaves.values()), default=0)
    yield from ring([own[i] for i in range(most) for own in leaves.values() if i < len(own)])


def tree(rail: list[Hca]) -> Iterator[Flow]:
    """Yield both directions of NCCL's two binary trees over the nodes in the order of their names.

    The second tree is the first, shifted by one node or mirrored, so that a leaf of one is an
    inner node of the other (NCCL, src/graph/trees.cc).
    """
    count = len(rail)
    for child, parent in _binary_tree(count):
        for own, above in ((child, parent), _second(child, parent, count)):
            yield rail[own], rail[above]
            yield rail[above], rail[own]


def _binary_tree(count: int) -> Iterator[tuple[int, int]]:
    """Yield child and parent: a node's lowest set bit is its level, 0 is the root."""
    for rank in range(1, count):
        bit = rank & -rank
        parent = (rank ^ bit) | (bit << 1)
        yield rank, parent if parent < count else rank ^ bit


def _second(child: int, parent: int, count: int) -> tuple[int, int]:
    if count % 2:
        return (child + 1) % count, (parent + 1) % count
    return count - 1 - child, count - 1 - parent


PATTERNS = {"ring": ring, "ringx": ringx, "tree": tree}


@dataclass(frozen=True)
class Imbalance:
    """How uneven a pattern's flows are on the links of a switch."""

    hop: TrunkHop
    flows: int
    fair: int

    @property
    def excess(self) -> float:
        """Return how many times more flows share the busiest link than need to."""
        return self.flows / self.fair


@dataclass(frozen=True)
class Load:
    """The load of one pattern."""

    flows: Mapping[int, int]  # for each hop that carries some, how many
    up: list[TrunkHop]  # the links that lead away from the leaves
    worst: Imbalance | None  # the most uneven leaf by its links up; None if nothing crosses them
    worst_above: Imbalance | None  # the most uneven of the other switches by its links up
    worst_down: Imbalance | None  # the most uneven leaf by its links from above

    def max_over_mean(self) -> float | None:
        """Return the busiest against the mean link upwards; None without a flow on them."""
        loads = [self.flows.get(hop.number, 0) for hop in self.up]
        total = sum(loads)
        return max(loads) * len(loads) / total if total else None

    def idle(self) -> int:
        """Return how many links upwards carry nothing."""
        return sum(hop.number not in self.flows for hop in self.up)

    def busiest(self) -> TrunkHop | None:
        """Return the busiest link upwards."""
        return max(
            (hop for hop in self.up if hop.number in self.flows),
            key=lambda hop: (self.flows[hop.number], -hop.number),
            default=None,
        )


class Loads:
    """Counts loads, and knows by which links each switch can reach each leaf on a shortest way."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._fabric = routes.fabric
        self._up = [hop for hop in self._fabric.hops if self._fabric.is_up(hop)]
        self._nearer: dict[tuple[int, int], frozenset[int]] = {}
        self._distances: dict[int, list[int]] = {}

    def of(self, flows: Iterable[Flow]) -> Load:
        """Return the load of flows between HCAs."""
        counts: Counter[tuple[int, int]] = Counter()
        targets = {}
        for source, target in flows:
            if source.switch != target.switch:
                counts[source.switch, id(target)] += 1
                targets[id(target)] = target
        return self._load((leaf, targets[key], n) for (leaf, key), n in counts.items())

    def of_all_to_all(self) -> Load:
        """Return the load if each HCA sends to every other."""
        routes = self._routes
        return self._load(
            (leaf, target, count)
            for target in routes.targets
            for leaf, count in routes.sources.items()
            if leaf != target.switch
        )

    def _load(self, flows: Iterator[tuple[int, object, int]]) -> Load:
        on: dict[int, int] = defaultdict(int)
        up: dict[int, _Groups] = defaultdict(lambda: defaultdict(int))
        down: dict[int, _Groups] = defaultdict(lambda: defaultdict(int))
        levels = self._fabric.levels
        for leaf, target, count in flows:
            way = self._routes.way(leaf, target)  # type: ignore[arg-type]
            if not way:
                continue
            for hop in way:
                on[hop.number] += count
                if levels[hop.target] > levels[hop.source]:
                    up[hop.source][self._usable(hop.source, way[-1].target)] += count
            last = way[-1].target
            down[last][self._usable(last, leaf)] += count
        uneven = {key: self._imbalance(on, each, up=True) for key, each in up.items() if any(each)}
        into = {
            key: self._imbalance(on, each, up=False)
            for key, each in down.items()
            if any(each) and any(map(self._fabric.is_up, self._fabric.by_port[key].values()))
        }
        leaves = {key: each for key, each in uneven.items() if levels[key] == 0}
        above = {key: each for key, each in uneven.items() if levels[key]}
        return Load(dict(on), self._up, _worst(leaves), _worst(above), _worst(into))

    def of_tables(self) -> dict[int, Imbalance]:
        """Return for each switch how evenly its table spreads the HCAs over its links up.

        It counts each HCA once, whether or not its packets come by here: that a routing engine's
        choices at two levels coincide is not a fault of the table.
        """
        found = {}
        for switch, own in enumerate(self._fabric.by_port):
            on: dict[int, int] = defaultdict(int)
            groups: _Groups = defaultdict(int)
            for target in self._routes.targets:
                hop = own.get(self._routes.port_to(switch, target.end.lid))
                if hop is not None and self._fabric.is_up(hop):
                    on[hop.number] += 1
                    groups[self._usable(switch, target.switch)] += 1
            if any(groups):
                found[switch] = self._imbalance(on, groups, up=True)
        return found

    def _imbalance(self, on: Mapping[int, int], groups: _Groups, *, up: bool) -> Imbalance:
        """Return the busiest link by which the groups' flows leave their switch, or enter it."""
        hops = self._fabric.hops
        switch = hops[next(number for group in groups for number in group)].source
        out = [hop for hop in self._fabric.by_port[switch].values() if self._fabric.is_up(hop)]
        links = out if up else [self._fabric.by_port[hop.target][hop.target_port] for hop in out]
        busiest = max(links, key=lambda hop: (on.get(hop.number, 0), -hop.number))
        return Imbalance(busiest, on.get(busiest.number, 0), max(1, fair_load(groups)))

    def _usable(self, switch: int, leaf: int) -> frozenset[int]:
        """Return the hops out of a switch that begin a shortest way to a leaf."""
        found = self._nearer.get((switch, leaf))
        if found is None:
            away = self._distances_to(leaf)
            found = self._nearer[switch, leaf] = frozenset(
                hop.number
                for hop in self._fabric.by_port[switch].values()
                if away[hop.target] < away[switch]
            )
        return found

    def _distances_to(self, leaf: int) -> list[int]:
        found = self._distances.get(leaf)
        if found is None:
            by_port = self._fabric.by_port
            found = self._distances[leaf] = distances(by_port, [leaf], len(by_port) + 1)
        return found


def fair_load(groups: Mapping[frozenset[int], int]) -> int:
    """Return the least load of the busiest link when each group spreads over its links.

    It is the most that any choice of groups needs on the links that they have together (Hall).

    >>> fair_load({frozenset({1, 2}): 8, frozenset({2}): 8})
    8
    """
    most = 0
    for chosen in _choices(groups):
        links = frozenset[int]().union(*chosen)
        if links:
            most = max(most, ceil(sum(groups[group] for group in chosen) / len(links)))
    return most


def _choices(groups: Mapping[frozenset[int], int]) -> Iterator[tuple[frozenset[int], ...]]:
    names = sorted(groups, key=lambda group: (len(group), sorted(group)))
    if len(names) <= _MOST_SETS:
        for size in range(1, len(names) + 1):
            yield from combinations(names, size)
        return
    yield from ((name,) for name in names)
    yield from (tuple(names[:size]) for size in range(2, len(names) + 1))


def _worst(found: Mapping[int, Imbalance]) -> Imbalance | None:
    return max(found.values(), key=lambda each: (each.excess, each.flows), default=None)
