"""The nodes of a search for a fault, and what is found of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rdmaprov.isolation.compare import BAD_SHARE
from rdmaprov.isolation.meetings import Pair
from rdmaprov.isolation.model import FaultyPart
from rdmaprov.isolation.witnesses import Measure

# A group of fewer bad nodes than this is nodes, not a leaf.
LEAST_OF_LEAF = 3
EITHER = "the tests cannot tell which of the two is bad"


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
