"""What the site wants of each page size, held against the node's memory. Runs on the node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..machine import Machine
from ..plan import Refused
from . import hugetlb
from .hugetlb import Pool, size_text

# In KiB. Kernels with memory pages of 4 KiB have 2 MiB and 1 GiB, those of 64 KiB have 2 MiB,
# 512 MiB and 16 GiB. [Linux Documentation/arch/arm64/hugetlbpage.rst]
SIZES = {"16g": 16 << 20, "1g": 1 << 20, "512m": 512 << 10, "2m": 2 << 10}
# Larger than what the kernel can put together once it runs, but for memory that nobody used yet.
GIGANTIC = ("16g", "1g")


@dataclass(frozen=True)
class Wanted:
    """What the site says of one page size.

    Args:
        per_numa_node: pages by NUMA node.
        exact: no NUMA node may have another number; else they may differ by one.
        by_kernel: the kernel takes them while it boots, by its command line.
        left_alone: the site asks for none, and they are to stay or are doca-hugepages'.
    """

    kib: int
    variable: str
    per_numa_node: dict[int, int]
    exact: bool
    by_kernel: bool
    left_alone: bool

    @property
    def pages(self) -> int:
        """Return the pages of all NUMA nodes."""
        return sum(self.per_numa_node.values())

    def fits(self, pools: list[Pool]) -> bool:
        """Return whether the pools are as wanted."""
        if self.exact:
            return all(pool.pages == self.per_numa_node[pool.numa_node] for pool in pools)
        if sum(pool.pages for pool in pools) != self.pages:
            return False
        least = min(self.per_numa_node.values())
        return self.by_kernel or all(pool.pages in (least, least + 1) for pool in pools)


def choose(
    machine: Machine, arguments: dict[str, Any], size: str, theirs: dict[int, int]
) -> Wanted:
    """Return what the site wants of a page size.

    Args:
        theirs: pages of doca-hugepages, by page size in KiB.

    Raises:
        Refused: it contradicts itself or the node.
    """
    counts, count = arguments[f"per_numa_node_{size}"], arguments[f"count_{size}"]
    nodes = hugetlb.numa_nodes(machine)
    listed, total = f"hugepages_{size}_per_numa_node", f"hugepages_{size}_count"
    if counts and count:
        raise Refused(f"{listed}: {total} is set too; remove one of them")
    if counts and len(counts) != len(nodes):
        raise Refused(f"{listed}: {len(counts)} counts for {len(nodes)} NUMA nodes")
    variable = listed if counts else total
    if min([count, *counts]) < 0:
        raise Refused(f"{variable}: the number of pages cannot be negative")
    share, more = divmod(count, len(nodes))
    spread = counts or [share + (index < more) for index in range(len(nodes))]
    pages, kib = sum(spread), SIZES[size]
    if pages and not machine.exists(hugetlb.directory_of(nodes[0], kib)):
        raise Refused(f"{variable}: there are no {size_text(kib)} pages here")
    by_kernel = size in GIGANTIC and pages > 0 and arguments["allocation_1g"] == "boot"
    left_alone = not pages and (kib in theirs or arguments["unlisted"] == "keep")
    return Wanted(
        kib,
        variable,
        {node: spread[index] for index, node in enumerate(nodes)},
        bool(counts),
        by_kernel,
        left_alone,
    )


def check_memory(
    machine: Machine, sizes: list[Wanted], theirs: dict[int, int], left_bytes: int
) -> None:
    """Refuse more pages than the node has memory for."""
    taken = [(size, size.pages or theirs.get(size.kib, 0)) for size in sizes]
    in_bytes = sum(pages * size.kib << 10 for size, pages in taken)
    memory = hugetlb.memory_bytes(machine)
    asked = [size for size in sizes if size.pages]
    if asked and in_bytes + left_bytes > memory:
        raise Refused(
            f"{asked[0].variable}: hugepages of {_gib(in_bytes)} leave less than "
            f"{_gib(left_bytes)} of the node's {_gib(memory)} (/proc/meminfo); write fewer pages"
        )
    for node in hugetlb.numa_nodes(machine) if asked else []:
        in_bytes = sum(size.per_numa_node[node] * size.kib << 10 for size in sizes)
        memory = hugetlb.memory_bytes(machine, node)
        if in_bytes > memory:
            raise Refused(
                f"{asked[0].variable}: hugepages of {_gib(in_bytes)} on NUMA node {node}, "
                f"which has {_gib(memory)}; write fewer pages for it"
            )


def _gib(in_bytes: int) -> str:
    return f"{in_bytes / (1 << 30):.1f} GiB"
