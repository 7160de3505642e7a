"""Hugepages, for each size and NUMA node, now and at boot. Runs on the node."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .. import bootloader
from ..hugepages import hugetlb, owners, unit
from ..hugepages.hugetlb import Pool, size_text
from ..machine import Machine
from ..plan import RUNNING, Change, Plan, Refused

_COUNT: dict[str, Any] = {"type": "int", "default": 0}
_COUNTS: dict[str, Any] = {"type": "list", "elements": "int", "default": []}
KERNEL_ARGUMENTS = ("default_hugepagesz", "hugepagesz", "hugepages")
_VARIABLES = {
    "count_2m": "hugepages_2m_count",
    "per_numa_node_2m": "hugepages_2m_per_numa_node",
    "count_1g": "hugepages_1g_count",
    "per_numa_node_1g": "hugepages_1g_per_numa_node",
}
SIZES = {"1g": 1 << 20, "2m": 2 << 10}
# Linux b5389086ad7b: hugepages=NODE:PAGES,…
PER_NODE_ARGUMENT = (5, 16)


@dataclass(frozen=True)
class Wanted:
    """What the site says of one page size.

    Args:
        variable: where it says so.
        per_numa_node: pages by NUMA node.
        exact: no NUMA node may have another number; else they may differ by one.
        by_kernel: the kernel takes them while it boots, by its command line.
        left_alone: the site says nothing, and doca-hugepages does.

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


def plan(machine: Machine, arguments: dict[str, Any]) -> Plan:
    """Return what must change for the node to have its hugepages, now and after a boot."""
    plan = Plan(machine)
    theirs = owners.doca(machine)
    _check_kernel(plan, arguments)
    sizes = [_choose_pages(machine, arguments, size, theirs) for size in SIZES]
    _check_memory(machine, sizes, theirs, arguments["left_bytes"])
    kernel = _kernel_arguments(machine, sizes, arguments["default_size"])
    _check_owners(machine, sizes, theirs, kernel, arguments["default_size"])
    # For the boot first: where the kernel has too few now, a reboot then helps.
    unit.at_boot(plan, _pools_at_boot(sizes))
    bootloader.arguments(plan, "hugepages", KERNEL_ARGUMENTS, kernel)
    pools = {size.kib: hugetlb.pools(machine, size.kib) for size in sizes}
    changed = []
    for size in sizes:
        waits = size.by_kernel and bool(plan.reboot)
        if not size.left_alone and not waits and not size.fits(pools[size.kib]):
            changed.append(size)
    for grow in (False, True):
        for size in changed:
            _resize(plan, size, pools[size.kib], grow)
    return plan


def _check_kernel(plan: Plan, arguments: dict[str, Any]) -> None:
    """Refuse pages on a kernel that has others, as with memory pages of 64 KiB: 512 MiB, 16 GiB."""
    seen = hugetlb.default_kib(plan.machine)
    if seen is None or seen in SIZES.values():
        return
    why = f"the kernel's default hugepage size is {size_text(seen)} (/proc/meminfo)"
    names = ("per_numa_node_2m", "count_2m", "per_numa_node_1g", "count_1g")
    asked = [_VARIABLES[name] for name in names if arguments[name]]
    if arguments["default_size"] == "1G":
        asked.append("hugepages_default_size")
    if asked:
        raise Refused(
            f"{asked[0]}: {why}, and rdmaprov reserves hugepages only where that is 2 MiB or 1 "
            "GiB. Start a kernel with memory pages of 4 KiB, or remove the line"
        )
    plan.notes.append(f"hugepages: {why}; none are described, so they are left alone")


def _choose_pages(
    machine: Machine, arguments: dict[str, Any], size: str, theirs: dict[int, int]
) -> Wanted:
    counts, count = arguments[f"per_numa_node_{size}"], arguments[f"count_{size}"]
    nodes = hugetlb.numa_nodes(machine)
    listed, total = f"hugepages_{size}_per_numa_node", f"hugepages_{size}_count"
    if counts and count:
        raise Refused(f"{listed}: {total} is set too; remove one of them")
    if counts and len(counts) != len(nodes):
        raise Refused(f"{listed}: {len(counts)} counts for {len(nodes)} NUMA nodes")
    if min([count, *counts]) < 0:
        raise Refused(f"{listed if counts else total}: the number of pages cannot be negative")
    share, more = divmod(count, len(nodes))
    spread = counts or [share + (index < more) for index in range(len(nodes))]
    pages, kib = sum(spread), SIZES[size]
    if pages and not machine.exists(hugetlb.directory_of(nodes[0], kib)):
        raise Refused(f"{listed if counts else total}: there are no {size_text(kib)} pages here")
    by_kernel = size == "1g" and pages > 0 and arguments["allocation_1g"] == "boot"
    left_alone = not pages and kib in theirs
    return Wanted(
        kib,
        listed if counts else total,
        {node: spread[index] for index, node in enumerate(nodes)},
        bool(counts),
        by_kernel,
        left_alone,
    )


def _check_memory(
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


def _kernel_arguments(machine: Machine, sizes: list[Wanted], default_size: str) -> list[str]:
    words = ["default_hugepagesz=1G"] if default_size == "1G" else []
    for size in sizes:
        if not size.by_kernel:
            continue
        pages = str(size.pages)
        if size.exact:
            _check_per_node_argument(machine, size)
            counts = size.per_numa_node.items()
            pages = ",".join(f"{node}:{count}" for node, count in counts if count)
        words += ["hugepagesz=1G", f"hugepages={pages}"]
    return words


def _check_per_node_argument(machine: Machine, size: Wanted) -> None:
    release = machine.value("/proc/sys/kernel/osrelease") or ""
    found = re.match(r"(\d+)\.(\d+)", release)
    if found is None or (int(found[1]), int(found[2])) < PER_NODE_ARGUMENT:
        raise Refused(
            f"{size.variable}: kernel {release} takes no pages by NUMA node at boot (that came "
            "with Linux 5.16); write hugepages_1g_count, or hugepages_1g_allocation: runtime"
        )


def _check_owners(
    machine: Machine,
    sizes: list[Wanted],
    theirs: dict[int, int],
    kernel: list[str],
    default_size: str,
) -> None:
    """Refuse what others would undo, or what would keep others from working."""
    if theirs and kernel:
        raise Refused(
            "doca-hugepages is configured, but ignores hugepages on the kernel's "
            f"command line ({owners.DOCA}); write hugepages_1g_allocation: runtime and "
            "hugepages_default_size: 2M, or run on the node: doca-hugepages remove APP"
        )
    default = SIZES["1g"] if default_size == "1G" else SIZES["2m"]
    if hugetlb.default_kib(machine) not in (None, *SIZES.values()):
        return  # sysctl's pages are of a size that is not ours
    for size in sizes:
        owners.refuse_doca(size.kib, size.pages, theirs.get(size.kib, 0), size.variable)
        if size.kib == default and not size.left_alone:
            owners.refuse_sysctl(machine, size.pages, size.variable)


def _pools_at_boot(sizes: list[Wanted]) -> dict[tuple[int, int], int]:
    return {
        (size.kib, node): pages
        for size in sizes
        if size.pages and not size.by_kernel
        for node, pages in size.per_numa_node.items()
    }


def _resize(plan: Plan, size: Wanted, pools: list[Pool], grow: bool) -> None:
    """Have the pools that are too small grow, or those that are too large shrink."""
    for pool in pools:
        pages = size.per_numa_node[pool.numa_node]
        if pages == pool.pages or (pages > pool.pages) != grow:
            continue
        if not grow:
            _check_use(plan.machine, size, pool, pages)
        _add(plan, pool, pages)


def _check_use(machine: Machine, size: Wanted, pool: Pool, pages: int) -> None:
    """Refuse to shrink below what processes have: the kernel would make those pages surplus."""
    used = pool.used + hugetlb.reserved_pages(machine, size.kib)
    if pages < used:
        raise Refused(
            f"NUMA node {pool.numa_node}: {used} of {pool.pages} hugepages of "
            f"{size_text(size.kib)} are in use or reserved ({pool.directory}), expected {pages}; "
            f"end what uses them, or write more in {size.variable}"
        )


def _add(plan: Plan, pool: Pool, pages: int) -> None:
    change = Change(
        RUNNING,
        f"NUMA node {pool.numa_node}",
        f"{size_text(pool.kib)} hugepages",
        str(pool.pages),
        str(pages),
    )
    plan.add(change, lambda: hugetlb.resize(plan.machine, pool, pages))
