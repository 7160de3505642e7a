"""How much a collective can move: the traffic of each algorithm, against what the links carry.

All numbers are bus bandwidths as nccl-tests define them: S / t × 2 (n - 1) / n for S bytes on each
of n ranks for an all-reduce, half of that for the others (github.com/NVIDIA/nccl-tests,
doc/PERFORMANCE.md). Where each node moves B each way, S bytes take t = traffic × S / B, so a
ceiling of an all-reduce is B × 2 (n - 1) / n / traffic.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from rdmaprov.bandwidth.fabric import Fabric


@dataclass(frozen=True)
class Algorithm:
    """A way to reduce."""

    name: str  # NCCL's name for it, in small letters
    # what the busiest node sends to others, as a share of S, for a fabric
    traffic: Callable[[Fabric], float]
    why: str  # where that share comes from
    reduces: bool = False  # whether the NVLink switches reduce inside the node


def tree_links(domains: int) -> int:
    """Return how many edges the busiest node has in a double binary tree, both trees together.

    A node is inside of one tree, where it has a parent and two children, and a leaf of the other:
    four edges, and each carries half of the data each way. With two nodes each is root or leaf,
    with three none has two children. (github.com/NVIDIA/nccl, src/graph/trees.cc)
    """
    return min(domains, 4)


# How often a ring takes the data round, for each collective.
COLLECTIVES = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "alltoall": 1}


def factor(fabric: Fabric) -> float:
    """Return the bus bandwidth of a collective by its algorithm bandwidth: c (n - 1) / n."""
    return COLLECTIVES[fabric.collective] * (fabric.ranks - 1) / fabric.ranks


def _direct(fabric: Fabric) -> float:
    """Return what a node sends, as a share of S, if each part goes straight to its target."""
    per_domain = fabric.ranks / fabric.domains
    leaves = (fabric.ranks - per_domain) / fabric.ranks
    return leaves * per_domain if fabric.collective == "alltoall" else leaves


ALGORITHMS = {
    item.name: item
    for item in (
        Algorithm("ring", factor, "a ring crosses each node once for every rank's share"),
        Algorithm(
            "tree",
            lambda fabric: tree_links(fabric.domains) / 2,
            "a tree reduces inside the node first, and each edge carries half of the data",
        ),
        Algorithm(
            "nvlstree",
            lambda fabric: tree_links(fabric.domains) / 2,
            "a tree whose nodes reduce by NVLink SHARP: the same edges between nodes",
            reduces=True,
        ),
        Algorithm(
            "nvls",
            lambda _fabric: 1.0,
            "NVLink SHARP inside one NVLink domain; between domains SHARP in the switches",
            reduces=True,
        ),
        Algorithm(
            "sharp",
            lambda _fabric: 1.0,
            "the switches reduce: a node sends its sum once and receives the result once",
        ),
        Algorithm("direct", _direct, "each part goes straight to the nodes that need it"),
    )
}


def algorithms(fabric: Fabric) -> tuple[str, ...]:
    """Return the algorithms that a collective could take, the usual one first."""
    if fabric.collective == "all_reduce":
        return tuple(name for name in ALGORITHMS if name != "direct")
    return ("direct",) if fabric.collective == "alltoall" else ("ring", "direct")


def network_gb_s(fabric: Fabric, algorithm: str) -> float:
    """Return what the rails carry at most by an algorithm, in GB/s; infinite inside one domain.

    Nodes that share NVLink may use all of their rails together.
    """
    if fabric.domains < 2:
        return math.inf
    together = fabric.node_gb_s * min(fabric.nvlink_nodes, fabric.nodes)
    return together * factor(fabric) / ALGORITHMS[algorithm].traffic(fabric)


def inside_gb_s(fabric: Fabric, algorithm: str) -> float:
    """Return what NVLink or PCIe inside a node allows, in GB/s; infinite where it is not known.

    Where NVLink's switches reduce, the time does not grow with the ranks, so the bus bandwidth
    grows with its factor from the g GPUs of a node to all n: (n - 1) / n ÷ (g - 1) / g.
    """
    measured, gpus = fabric.intra_node_gb_s, fabric.gpus_per_node
    if fabric.collective == "alltoall":
        measured = None  # each GPU's own links carry that
    if measured is None or (gpus < 2 and fabric.nvlink_nodes < 2):
        return math.inf  # one GPU in a node has nobody to share with
    if not ALGORITHMS[algorithm].reduces or gpus < 2:
        return measured
    return measured * factor(fabric) / (2 * (gpus - 1) / gpus)


def algorithm_gb_s(fabric: Fabric, algorithm: str) -> float:
    """Return what an algorithm reaches at most, in GB/s."""
    return min(network_gb_s(fabric, algorithm), inside_gb_s(fabric, algorithm))


def ring_gb_s(fabric: Fabric) -> float:
    """Return a ring's ceiling in GB/s, if all of its traffic had to cross the spines.

    A ring between nodes is what NCCL runs on three nodes and more, and what a floor is a share of;
    of an alltoall, which takes none, it is its own ceiling.
    Of an NVLink domain whose own limit is not known, it is the ring over the rails of single nodes.
    """
    usual = algorithms(fabric)[0]
    inside = inside_gb_s(fabric, usual)
    if fabric.domains < 2:
        return inside
    together = fabric.nvlink_nodes if math.isfinite(inside) else 1
    share = factor(fabric) / ALGORITHMS[usual].traffic(fabric)
    return min(share * fabric.node_gb_s * together / fabric.oversubscription, inside)


def max_gb_s(fabric: Fabric, algorithm: str = "auto") -> float:
    """Return what the rails carry at most by an algorithm, by the best one for `auto`, in GB/s.

    Traffic may stay below the spines, so oversubscription does not lower it.
    """
    names = algorithms(fabric) if algorithm == "auto" else (algorithm,)
    return max(network_gb_s(fabric, name) for name in names)
