"""How much an all-reduce can move: the traffic of each algorithm, against what the links carry.

All numbers are bus bandwidths as nccl-tests define them: S / t × 2 (n - 1) / n for S bytes on each
of n ranks (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md). Where each node moves B each way, S
bytes take t = traffic × S / B, so a ceiling is B × 2 (n - 1) / n / traffic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rdmaprov.bandwidth.fabric import Fabric


@dataclass(frozen=True)
class Algorithm:
    """A way to reduce between nodes.

    Args:
        name: NCCL's name for it, in small letters.
        traffic: what the busiest node sends, as a share of S, for a fabric.
        why: where that share comes from.

    """

    name: str
    traffic: Callable[[Fabric], float]
    why: str


def tree_links(domains: int) -> int:
    """Return how many edges the busiest node has in a double binary tree, both trees together.

    A node is inside of one tree, where it has a parent and two children, and a leaf of the other:
    four edges, and each carries half of the data each way. With two nodes each is root or leaf,
    with three none has two children. (github.com/NVIDIA/nccl, src/graph/trees.cc)
    """
    return min(domains, 4)


def _ring(fabric: Fabric) -> float:
    """Return 2 (n - 1) / n: each ring enters and leaves a node once, for all n ranks."""
    return 2 * (fabric.ranks - 1) / fabric.ranks


ALGORITHMS = {
    item.name: item
    for item in (
        Algorithm("ring", _ring, "a ring crosses each node once for every rank's share"),
        Algorithm(
            "tree",
            lambda fabric: tree_links(fabric.domains) / 2,
            "a tree reduces inside the node first, and each edge carries half of the data",
        ),
        Algorithm(
            "nvlstree",
            lambda fabric: tree_links(fabric.domains) / 2,
            "a tree whose nodes reduce by NVLink SHARP: the same edges between nodes",
        ),
        Algorithm(
            "sharp",
            lambda _fabric: 1.0,
            "the switches reduce: a node sends its sum once and receives the result once",
        ),
    )
}


def ring_gb_s(fabric: Fabric) -> float:
    """Return a ring's ceiling in GB/s, if all of its traffic had to cross the spines.

    A ring between nodes is what NCCL runs on three nodes and more, and what a floor is a share of.
    """
    return fabric.node_gb_s / fabric.oversubscription


def max_gb_s(fabric: Fabric, algorithm: str = "auto") -> float:
    """Return what the links carry at most by an algorithm, by the best one for `auto`, in GB/s.

    Traffic may stay below the spines, so oversubscription does not lower it; nodes that share
    NVLink may use all of their rails together.
    """
    together = fabric.node_gb_s * min(fabric.nvlink_nodes, fabric.nodes)
    names = ALGORITHMS if algorithm == "auto" else (algorithm,)
    scale = 2 * (fabric.ranks - 1) / fabric.ranks
    return max(together * scale / ALGORITHMS[name].traffic(fabric) for name in names)
