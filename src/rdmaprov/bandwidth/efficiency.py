"""What a healthy fleet reaches, by algorithm and size: shares of the links, and latencies.

S bytes take t = S × 2 (n - 1) / n ÷ bandwidth + latency. The bandwidth is a share of what the
rails carry, and of what NVLink or PCIe inside a node carries; the least of both counts. The shares
lie just under the slowest healthy ones of docs/measurements.md, by which a test judges them.
The latencies are those by which NCCL itself chooses (github.com/NVIDIA/nccl, v2.30.7-1,
src/graph/tuning.cc, `ncclTunerConstantsDefaults` and `ncclTopoTuneModel`, protocol Simple).
"""

import math
from dataclasses import replace

from rdmaprov.bandwidth import ceiling
from rdmaprov.bandwidth.fabric import Fabric

# The most that was published: two nodes by a ring, 392.7 of 400 GB/s
# (github.com/NVIDIA/nccl-tests/issues/309); NCCL's authors expect 96 % of a NIC (issues/119).
MAX_EFFICIENCY = 0.98
DEFAULT_BYTES = 8 << 30
# A ring over the rails: on two nodes; up to eight nodes; lost with each doubling beyond; the least.
# Published are 0.86 on two nodes (nccl-tests/issues/175), 0.80 on four and eight (issues/309).
# The more nodes, the more flows share paths, and each ring waits for its slowest flow: 4 points
# for each doubling are our choice, with 0.67 on 64 nodes and no measurement below it.
RING_PAIR, RING_FEW, RING_LOSS, RING_LEAST = 0.85, 0.79, 0.04, 0.50
# The same shares hold for all-gathers (0.92 to 0.94 on two nodes) and reduce-scatters (0.90 on four
# to 0.65 on 128); those from three nodes on, on any number, for an alltoall (0.85 on two, 0.80 on
# 32), all in docs/measurements.md.
# A tree on two nodes, of its own ceiling and, as its kernels limit it, of a ring's: 50 of 57.6
# (nccl-tests/issues/232), 57.06 of 50 (nccl/issues/837), 466.73 of 400 (nccl-tests/issues/309).
TREE_PAIR, TREE_PAIR_OF_RING = 0.85, 1.12
# Trees on more nodes: NCCL's own factors for Tree are 0.92 × 0.85; NVLSTree may be what reached
# 0.81 on eight nodes (nccl-tests/issues/309). They do not fall with the nodes.
TREE_MANY, NVLSTREE_MANY = 0.70, 0.78
# No measurement with SHARP in the switches was found: our choice.
SHARP = 0.60
# NVLink domains together, of what NVLink reaches in one: 0.97 on two racks, 0.51 on twenty, from
# the growth of the times with the size (coreweave/nccl-tests README).
DOMAIN_PAIR, DOMAIN_LOSS, DOMAIN_LEAST = 0.80, 0.11, 0.30
# Inside the nodes of a fleet, of an all-reduce inside one: a tenth less is our choice. If that one
# was, or may have been, by NVLink SHARP, a ring reaches 0.77 of it on H100 (370 of 480,
# nccl-tests/issues/212) and 0.74 on H800 (160 of 215).
INSIDE, INSIDE_AFTER_NVLS, INSIDE_REDUCED = 0.90, 0.67, 0.80
# Microseconds: of a launch, of a step by NVLink, of a step between nodes.
_LATENCIES = {
    "ring": (8.4, 3.4, 14.0),
    "tree": (8.4, 4.0, 14.0),
    "nvlstree": (8.4, 25.0, 20.9),
    "nvls": (8.4, 25.0, 18.0),
    "sharp": (8.4, 3.7, 31.0),
    "direct": (8.4, 3.4, 14.0),
}
# NCCL's correction of Tree with Simple between 64 B and 256 MiB goes down to this.
_TREE_MIDDLE, _TREE_LARGE_BYTES = 0.5, 256 << 20


def network_share(fabric: Fabric, algorithm: str) -> float:
    """Return which share of an algorithm's ceiling by the rails a healthy fleet reaches."""
    if fabric.nvlink_nodes > 1:
        lost = DOMAIN_LOSS * math.log2(max(fabric.domains, 2) / 2)
        return max(DOMAIN_PAIR - lost, DOMAIN_LEAST)
    if algorithm in {"ring", "direct"}:
        if fabric.nodes <= 2 and algorithm == "ring":
            return RING_PAIR
        return max(RING_FEW - RING_LOSS * max(math.log2(fabric.nodes / 8), 0.0), RING_LEAST)
    if algorithm in {"sharp", "nvls"}:
        return SHARP
    if fabric.nodes == 2:
        of_ring = ceiling.network_gb_s(fabric, algorithm) / ceiling.network_gb_s(fabric, "ring")
        return min(TREE_PAIR, TREE_PAIR_OF_RING / of_ring)
    return TREE_MANY if algorithm == "tree" or fabric.nodes == 3 else NVLSTREE_MANY


def inside_share(fabric: Fabric, algorithm: str) -> float:
    """Return which share of what a node reaches alone a fleet reaches inside its nodes."""
    if ceiling.ALGORITHMS[algorithm].reduces:
        return INSIDE_REDUCED
    return INSIDE if fabric.intra_node_by in {"ring", "tree"} else INSIDE_AFTER_NVLS


def latency_us(fabric: Fabric, algorithm: str) -> float:
    """Return the time of a collective that does not depend on its size, in microseconds."""
    launch, step, hop = _LATENCIES[algorithm]
    domains, per_domain = fabric.domains, fabric.ranks // fabric.domains
    if algorithm == "ring":
        rounds = ceiling.COLLECTIVES[fabric.collective]
        between = rounds * (domains - 1)
        return launch + (rounds * (fabric.ranks - 1) - between) * step + between * hop
    if algorithm == "direct":
        return launch + (domains - 1) * hop
    if algorithm == "tree":
        return launch + 2 * ((per_domain - 1) * step + math.log2(domains) * hop)
    if algorithm == "nvlstree":
        return launch + step + 2 * math.log2(domains) * hop
    return launch + 2 * step + (hop if domains > 1 else 0.0)


def busbw_gb_s(fabric: Fabric, algorithm: str, size_bytes: int, bandwidth_gb_s: float) -> float:
    """Return the bus bandwidth in GB/s of a size, from that of an endless one."""
    moved = size_bytes * ceiling.factor(fabric)
    if algorithm == "tree" and size_bytes < _TREE_LARGE_BYTES:
        bandwidth_gb_s *= _TREE_MIDDLE
    seconds = moved / (bandwidth_gb_s * 1e9) + latency_us(fabric, algorithm) / 1e6
    return moved / seconds / 1e9


def healthy_gb_s(fabric: Fabric, algorithm: str, size_bytes: int = DEFAULT_BYTES) -> float:
    """Return the bus bandwidth in GB/s that a healthy fleet reaches by an algorithm."""
    if fabric.domains > 1 and fabric.nvlink_nodes > 1 and fabric.intra_node_gb_s is None:
        # What NVLink adds is not known; the rails of single nodes are the least that there is.
        return healthy_gb_s(replace(fabric, nvlink_nodes=1), algorithm, size_bytes)
    network = ceiling.network_gb_s(fabric, algorithm) / fabric.oversubscription
    inside = ceiling.inside_gb_s(fabric, algorithm)
    if fabric.nvlink_nodes > 1 and fabric.domains > 1:  # their rails together may carry more
        network = min(network, inside)
    bandwidth = min(
        network * network_share(fabric, algorithm), inside * inside_share(fabric, algorithm)
    )
    return busbw_gb_s(fabric, algorithm, size_bytes, bandwidth)
