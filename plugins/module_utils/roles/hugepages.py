"""Hugepages, for each size and NUMA node, now and at boot. Runs on the node."""

from __future__ import annotations

import re
from typing import Any

from .. import bootloader
from ..hugepages import hugetlb, owners, unit, wanted
from ..hugepages.hugetlb import Pool, size_text
from ..hugepages.wanted import GIGANTIC, SIZES, Wanted
from ..machine import Machine
from ..plan import RUNNING, Change, Plan, Refused

_DEFAULT_SIZE, _PAGES = ("default_hugepagesz",), ("hugepagesz", "hugepages")
# Linux b5389086ad7b: hugepages=NODE:PAGES,…
PER_NODE_ARGUMENT = (5, 16)


def plan(machine: Machine, arguments: dict[str, Any]) -> Plan:
    """Return what must change for the node to have its hugepages, now and after a boot."""
    plan = Plan(machine)
    theirs = owners.doca(machine)
    _check_default_size(machine, arguments["default_size"])
    sizes = [wanted.choose(machine, arguments, size, theirs) for size in SIZES]
    wanted.check_memory(machine, sizes, theirs, arguments["left_bytes"])
    kernel = _kernel_arguments(machine, sizes, arguments["default_size"])
    _check_owners(machine, sizes, theirs, kernel, arguments["default_size"])
    # For the boot first: where the kernel has too few now, a reboot then helps.
    unit.at_boot(plan, _pools_at_boot(sizes))
    names = _kernel_argument_names(sizes, arguments)
    if names:
        bootloader.arguments(plan, "hugepages", names, kernel)
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


def _check_default_size(machine: Machine, default_size: str) -> None:
    """Refuse a default size that the kernel does not have."""
    kib = SIZES.get(default_size.lower())
    if kib is not None and not _has(machine, kib):
        raise Refused(
            f"hugepages_default_size: this kernel has no pages of {size_text(kib)}; write one of "
            "its sizes (ls /sys/devices/system/node/node0/hugepages), or keep"
        )


def _has(machine: Machine, kib: int) -> bool:
    return machine.exists(hugetlb.directory_of(hugetlb.numa_nodes(machine)[0], kib))


def _kernel_argument_names(sizes: list[Wanted], arguments: dict[str, Any]) -> tuple[str, ...]:
    """Return the kernel arguments that the site determines; others stay as they are."""
    gigantic = [SIZES[name] for name in GIGANTIC]
    large = any(size.pages and size.kib in gigantic for size in sizes)
    default_size = () if arguments["default_size"] == "keep" else _DEFAULT_SIZE
    return default_size + (_PAGES if large or arguments["unlisted"] == "free" else ())


def _kernel_arguments(machine: Machine, sizes: list[Wanted], default_size: str) -> list[str]:
    # The kernel's own: one entry of its page tables, which is 512 MiB with pages of 64 KiB.
    own = "512M" if _has(machine, SIZES["512m"]) else "2M"
    words = [] if default_size in ("keep", own) else [f"default_hugepagesz={default_size}"]
    for size in sizes:
        if not size.by_kernel:
            continue
        pages = str(size.pages)
        if size.exact:
            _check_per_node_argument(machine, size)
            counts = size.per_numa_node.items()
            pages = ",".join(f"{node}:{count}" for node, count in counts if count)
        words += [f"hugepagesz={size.kib >> 20}G", f"hugepages={pages}"]
    return words


def _check_per_node_argument(machine: Machine, size: Wanted) -> None:
    release = machine.value("/proc/sys/kernel/osrelease") or ""
    found = re.match(r"(\d+)\.(\d+)", release)
    if found is None or (int(found[1]), int(found[2])) < PER_NODE_ARGUMENT:
        raise Refused(
            f"{size.variable}: kernel {release} takes no pages by NUMA node at boot (that came "
            "with Linux 5.16); write {size.variable.replace('per_numa_node', 'count')}, or "
            "hugepages_1g_allocation: runtime"
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
            "hugepages_default_size: keep, or run on the node: doca-hugepages remove APP"
        )
    seen = hugetlb.default_kib(machine) or SIZES["2m"]
    default = SIZES.get(default_size.lower(), seen)
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
