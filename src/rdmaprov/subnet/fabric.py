"""The fabric as a graph: switches by number, their links, their level, and the HCAs on them."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rdmaprov.subnet.model import Cable, Discovery, Kind, PortEnd
from rdmaprov.subnet.names import AGGREGATION, Place, place

_MOST_LEVELS = 64


@dataclass(frozen=True)
class Hca:
    """One port of an HCA, and the port of the switch that it is on."""

    end: PortEnd
    at: Place
    switch: int
    port: int
    cable: Cable


@dataclass(frozen=True)
class TrunkHop:
    """A link between switches in one direction."""

    number: int
    source: int
    port: int
    target: int
    target_port: int


@dataclass
class SubnetGraph:
    """The switches in the order of their names, and what hangs on them."""

    switches: list[PortEnd]  # one end of each, for its GUID, LID and name
    hops: list[TrunkHop]
    by_port: list[dict[int, TrunkHop]]  # for each switch, the hop that leaves by a port
    # ports of HCAs on switches; not those inside switches (SHARP), nor on other HCAs
    hcas: list[Hca]
    # 0 for leaves, which have HCAs; each other switch is one above the lowest next to it
    levels: list[int]
    # for each switch, the number of the connected part of the fabric that it is in
    parts: list[int]
    cables: dict[tuple[int, int], Cable] = field(default_factory=dict)
    # switches with an adapter of their own that reduces (SHARP)
    aggregating: frozenset[int] = frozenset()

    def label(self, switch: int) -> str:
        """Return a switch's name; with its GUID if others have the name too."""
        end = self.switches[switch]
        if end.name and self._names[end.name] == 1:
            return end.name
        return f"{end.name} {end.guid:#018x}".strip()

    def node_label(self, end: PortEnd) -> str:
        """Return the name of the node that a port belongs to, unique among switches."""
        number = self._numbers.get(end.guid)
        return self.label(number) if number is not None else end.name or f"{end.guid:#018x}"

    def end_label(self, end: PortEnd) -> str:
        """Return the name of a port with its node."""
        return f"{self.node_label(end)} port {end.port}"

    def level_of(self, guid: int) -> int:
        """Return the level of a switch by its GUID."""
        return self.levels[self._numbers[guid]]

    def leaves(self) -> list[int]:
        """Return the switches at level 0."""
        return [number for number, level in enumerate(self.levels) if level == 0]

    def is_up(self, hop: TrunkHop) -> bool:
        """Return whether a link leads away from the leaves."""
        return self.levels[hop.target] > self.levels[hop.source]

    def __post_init__(self) -> None:
        """Index the switches by GUID; count names that several have."""
        self._names = Counter(end.name for end in self.switches)
        self._numbers = {end.guid: number for number, end in enumerate(self.switches)}


def build(discovery: Discovery) -> SubnetGraph:
    """Return the fabric that a discovery saw."""
    ends = {end.guid: end for end in _ends(discovery) if end.kind is Kind.SWITCH}
    switches = sorted(ends.values(), key=lambda end: (end.name, end.guid))
    numbers = {end.guid: number for number, end in enumerate(switches)}
    hops, by_port, cables = _hops(discovery, numbers)
    hcas = _hcas(discovery.cables, numbers)
    leaves = _leaves(by_port, Counter(hca.switch for hca in hcas))
    levels = distances(by_port, sorted(leaves), _MOST_LEVELS)
    parts, aggregating = _parts(len(switches), by_port), _aggregating(discovery.cables, numbers)
    return SubnetGraph(switches, hops, by_port, hcas, levels, parts, cables, aggregating)


def _ends(discovery: Discovery) -> Iterable[PortEnd]:
    for cable in discovery.cables:
        yield cable.near
        yield cable.far
    yield from discovery.free


def _hops(
    discovery: Discovery, numbers: dict[int, int]
) -> tuple[list[TrunkHop], list[dict[int, TrunkHop]], dict[tuple[int, int], Cable]]:
    hops: list[TrunkHop] = []
    by_port: list[dict[int, TrunkHop]] = [{} for _ in numbers]
    cables: dict[tuple[int, int], Cable] = {}
    for cable in discovery.cables:
        for near, far in ((cable.near, cable.far), (cable.far, cable.near)):
            cables[near.key] = cable
            if near.kind is Kind.SWITCH and far.kind is Kind.SWITCH:
                source, target = numbers[near.guid], numbers[far.guid]
                hop = TrunkHop(len(hops), source, near.port, target, far.port)
                hops.append(hop)
                by_port[source][near.port] = hop
    return hops, by_port, cables


def _hcas(cables: Iterable[Cable], numbers: dict[int, int]) -> list[Hca]:
    found = []
    for cable in cables:
        for end, other in ((cable.near, cable.far), (cable.far, cable.near)):
            if end.kind is Kind.HCA and other.kind is Kind.SWITCH and AGGREGATION not in end.name:
                at = place(end.name)
                found.append(Hca(end, at, numbers[other.guid], other.port, cable))
    return sorted(found, key=lambda hca: (hca.switch, hca.port))


def _aggregating(cables: Iterable[Cable], numbers: dict[int, int]) -> frozenset[int]:
    return frozenset(
        numbers[other.guid]
        for cable in cables
        for end, other in ((cable.near, cable.far), (cable.far, cable.near))
        if end.kind is Kind.HCA and other.kind is Kind.SWITCH and AGGREGATION in end.name
    )


def distances(
    by_port: Sequence[Mapping[int, TrunkHop]], starts: Sequence[int], far: int
) -> list[int]:
    """Return for each switch the fewest hops to the next of some; FAR if there is no way."""
    found = [far] * len(by_port)
    queue = deque(starts)
    for start in starts:
        found[start] = 0
    while queue:
        switch = queue.popleft()
        for hop in by_port[switch].values():
            if found[hop.target] > found[switch] + 1:
                found[hop.target] = found[switch] + 1
                queue.append(hop.target)
    return found


def _leaves(by_port: list[dict[int, TrunkHop]], hcas: Counter[int]) -> set[int]:
    """Return the switches with HCAs, without spines that have a few, such as a storage node.

    Such a spine has fewer HCAs than cables to leaves.
    """
    leaves = {switch for switch in hcas if hcas[switch]}
    while True:
        beside = {
            leaf: sum(hop.target in leaves for hop in by_port[leaf].values()) for leaf in leaves
        }
        worst = max(leaves, key=lambda leaf: (beside[leaf] - hcas[leaf], leaf), default=None)
        if worst is None or beside[worst] <= hcas[worst]:
            return leaves
        leaves.discard(worst)


def _parts(count: int, by_port: list[dict[int, TrunkHop]]) -> list[int]:
    parts = [-1] * count
    for first in range(count):
        if parts[first] >= 0:
            continue
        queue = deque([first])
        parts[first] = first
        while queue:
            for hop in by_port[queue.popleft()].values():
                if parts[hop.target] < 0:
                    parts[hop.target] = first
                    queue.append(hop.target)
    return parts


def by_host(fabric: SubnetGraph) -> dict[str, dict[str, Hca]]:
    """Return the HCAs with a device name, by host and device."""
    hosts: dict[str, dict[str, Hca]] = defaultdict(dict)
    for hca in fabric.hcas:
        if hca.at.device:
            key = f"{hca.at.device}/{hca.end.port}" if hca.end.port > 1 else hca.at.device
            hosts[hca.at.host].setdefault(key, hca)
    return dict(hosts)
