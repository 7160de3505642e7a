"""Which paths between nodes are tested, and how."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rdmaprov.inventory import Node
from rdmaprov.perftest.expected import SlotLimit
from rdmaprov.perftest.locate import PathSearch
from rdmaprov.perftest.matchings import MATCHINGS, Matching, few_matchings
from rdmaprov.perftest.matrix import PathMatrix
from rdmaprov.perftest.model import PathMeasurer, PathTest


@dataclass(frozen=True)
class PathOptions:
    """How paths are tested."""

    matchings: int = MATCHINGS  # how many, or 0 for all pairs
    # what the slots of each rail can carry, where that is known
    slots: Mapping[int, SlotLimit] = field(default_factory=dict)
    # whether the rails are Soft-RoCE: one at a time, without a floor and latency
    is_software: bool = False


@dataclass(frozen=True)
class PathPlan:
    """Which paths of a fleet are tested."""

    names: tuple[str, ...]
    rails: tuple[int, ...]
    leaf_of: Mapping[str, str]  # the leaf of each node; empty where the site states none
    few: tuple[Matching, ...]

    def search(
        self,
        measurer: PathMeasurer,
        matrix: PathMatrix,
        make: Callable[[Matching], Sequence[PathTest]],
    ) -> PathSearch:
        """Return a search for what is at fault among these paths."""
        return PathSearch(self.names, self.rails, measurer, matrix, make)


def plan_paths(nodes: Sequence[Node], asked: PathOptions) -> PathPlan:
    """Return which paths between nodes are tested."""
    names = tuple(node.name for node in nodes)
    rails = tuple(sorted({rail.index for node in nodes for rail in node.compute_rails}))
    leaf_of = {node.name: node.leaf for node in nodes}
    few = few_matchings(names, rails, leaf_of, asked.matchings or MATCHINGS)
    return PathPlan(names, rails, leaf_of, few)
