"""Which algorithms NCCL could take, where nothing says which one it took."""

from __future__ import annotations

from rdmaprov.bandwidth import ceiling
from rdmaprov.bandwidth.efficiency import busbw_gb_s
from rdmaprov.bandwidth.fabric import Fabric

# NCCL takes what its own model says is fastest (src/graph/tuning.cc). It differs by version, GPU
# and plugin, and RCCL has its own, so all that is not clearly slower may have been taken.
CLEARLY_SLOWER = 0.85
# NCCL's factors for an all-reduce by Tree with Simple, same file.
_SHARE = {"ring": 1.0, "tree": 0.92 * 0.85, "nvlstree": 1.0}


def possible_algorithms(fabric: Fabric, size_bytes: int) -> tuple[str, ...]:
    """Return the algorithms that NCCL could take for a size, without SHARP in the switches.

    Whether the GPUs have NVLink SHARP is not known, so the best is looked for with and without it.
    """
    reduced = () if fabric.gpus_per_node < 2 else ("nvls" if fabric.domains < 2 else "nvlstree",)
    names = ("ring", "tree", *reduced)
    if fabric.domains <= 3 or fabric.nvlink_nodes > 1:
        # The times of twenty racks grow with the size as a ring's do (coreweave/nccl-tests README).
        return names
    times = {name: _estimate_gb_s(fabric, name, size_bytes) for name in names}
    without = max(times["ring"], times["tree"])
    best = {"nvlstree": max(times.values())}
    return tuple(
        name for name, gb_s in times.items() if gb_s >= CLEARLY_SLOWER * best.get(name, without)
    )


def _estimate_gb_s(fabric: Fabric, algorithm: str, size_bytes: int) -> float:
    """Return what NCCL expects of an algorithm, in GB/s."""
    most = ceiling.algorithm_gb_s(fabric, algorithm) * _SHARE[algorithm]
    return busbw_gb_s(fabric, algorithm, size_bytes, most)
