"""All nodes that are watched, and how a finding names them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from rdmaprov.finding.finding import Finding
from rdmaprov.watch.columns import lossless_priority
from rdmaprov.watch.node_account import NodeAccount
from rdmaprov.watch.rail import RailAccount

Place = tuple[str, int]  # a node and its rail


@dataclass
class WatchedFleet:
    """The nodes of a watch."""

    nodes: Mapping[str, NodeAccount]
    seconds: float = 0.0

    def __post_init__(self) -> None:
        """Note the leaf of each node for which it is known."""
        known = {name: each.node.leaf for name, each in self.nodes.items()}
        self.leaves = {name: leaf for name, leaf in known.items() if leaf}
        self._sizes = Counter(self.leaves.values())

    def size_of(self, leaf: str) -> int:
        """Return how many nodes are watched under a leaf."""
        return self._sizes[leaf]

    def rails(self) -> Iterator[tuple[Place, RailAccount]]:
        """Yield all rails that were read."""
        for name, node in self.nodes.items():
            for number, rail in enumerate(node.rails):
                if rail.seen_s:
                    yield (name, number), rail

    def gbps(self, place: Place) -> int:
        """Return a rail's line rate, 0 if the site does not say it."""
        node = self.nodes[place[0]].node
        return node.link_gbps(node.rails[place[1]])

    def lossless(self, place: Place) -> int | None:
        """Return the priority on which a node allows no loss, None if there is none."""
        return lossless_priority(self.nodes[place[0]].node)

    def finding(
        self,
        kind: str,
        what: str,
        remedy: str,
        place: Place | None = None,
        *,
        rail: int | None = None,
        nodes: tuple[str, ...] = (),
        leaf: str = "",
        part: str = "",
        values: Mapping[str, float | str] = MappingProxyType({}),
    ) -> Finding:
        """Return what is wrong at a rail, with its leaf, or at several nodes, or at a leaf."""
        if place is not None:
            nodes, rail = (place[0],), place[1]
        level = "leaf" if leaf else "rail"
        found = Finding(kind, what, remedy, rail=rail, level=level, nodes=nodes, leaf=leaf)
        return self.with_leaf(replace(found, part=part, values=values))

    def with_leaf(self, found: Finding) -> Finding:
        """Return a finding with the leaf of its node, if it is about one node."""
        return replace(found, leaf=found.leaf or self.leaves.get(found.node, ""))
