"""The kernel's pools of hugepages, one for each size and NUMA node. Runs on the node.

Source: Linux Documentation/admin-guide/mm/hugetlbpage.rst.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..machine import Machine, NodeError
from ..plan import NotYet

NODES = "/sys/devices/system/node"
ATTEMPTS = 4
_GIB = 1 << 20


def size_text(kib: int) -> str:
    """Return a page size in words."""
    return f"{kib >> 20} GiB" if kib >= _GIB else f"{kib >> 10} MiB"


@dataclass(frozen=True)
class Pool:
    """The pages of one size on one NUMA node."""

    numa_node: int
    kib: int
    pages: int  # those that the pool keeps, without surplus ones
    used: int

    @property
    def directory(self) -> str:
        """Return the kernel's directory of the pool."""
        return directory_of(self.numa_node, self.kib)


def directory_of(numa_node: int, kib: int) -> str:
    """Return the kernel's directory of a pool."""
    return f"{NODES}/node{numa_node}/hugepages/hugepages-{kib}kB"


def numa_nodes(machine: Machine) -> list[int]:
    """Return the NUMA nodes whose memory the kernel uses too, so no GPU's; or raise NodeError."""
    text = machine.value(f"{NODES}/has_normal_memory") or machine.value(f"{NODES}/online") or ""
    found: list[int] = []
    for part in text.split(",") if text else []:
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    if not found:
        raise NodeError(f"{NODES} shows no NUMA node with memory")
    return found


def pools(machine: Machine, kib: int) -> list[Pool]:
    """Return the pools of a page size, by NUMA node; none if the machine has no such pages."""
    return [
        _pool(machine, node, kib)
        for node in numa_nodes(machine)
        if machine.exists(directory_of(node, kib))
    ]


def _pool(machine: Machine, numa_node: int, kib: int) -> Pool:
    directory = directory_of(numa_node, kib)
    pages, free, surplus = (
        number(machine, f"{directory}/{name}_hugepages") for name in ("nr", "free", "surplus")
    )
    return Pool(numa_node, kib, pages - surplus, pages - free)


def number(machine: Machine, path: str) -> int:
    """Return a number that the kernel shows; raise NodeError if it shows none."""
    text = machine.value(path) or ""
    if not text.isdigit():
        raise NodeError(f"{path} shows no number")
    return int(text)


def reserved_pages(machine: Machine, kib: int) -> int:
    """Return how many pages are promised to processes that do not use them yet."""
    return number(machine, f"/sys/kernel/mm/hugepages/hugepages-{kib}kB/resv_hugepages")


def memory_bytes(machine: Machine, numa_node: int | None = None) -> int:
    """Return the memory of the node or of one NUMA node; raise NotYet if it is not shown."""
    path = "/proc/meminfo" if numa_node is None else f"{NODES}/node{numa_node}/meminfo"
    found = re.search(r"\bMemTotal:\s+(\d+) kB", machine.read(path) or "")
    if found is None:
        raise NotYet(f"{path} does not say how much memory there is")
    return int(found[1]) << 10


def default_kib(machine: Machine) -> int | None:
    """Return the size of a plain hugepage; None if the kernel does not say."""
    found = re.search(r"(?m)^Hugepagesize:\s+(\d+) kB$", machine.read("/proc/meminfo") or "")
    return int(found[1]) if found else None


def resize(machine: Machine, pool: Pool, pages: int) -> None:
    """Have a pool keep this many pages.

    The kernel takes any number and gives what it can, without an error. Where it gives fewer,
    memory is made contiguous, and then freed of caches.

    Raises:
        NodeError: it gave fewer in spite of all that.
    """
    path = f"{pool.directory}/nr_hugepages"
    for attempt in range(ATTEMPTS):
        if attempt > 1:
            machine.set("/proc/sys/vm/drop_caches", "3")
        if attempt > 0:
            machine.set("/proc/sys/vm/compact_memory", "1")
        machine.set(path, str(pages))
        given = _pool(machine, pool.numa_node, pool.kib).pages
        if given == pages:
            return
    raise NodeError(
        f"NUMA node {pool.numa_node}: the kernel allocated {given} of {pages} hugepages of "
        f"{size_text(pool.kib)}, even after compaction and dropping caches ({path}); free memory "
        "there or reboot the node; if that does not help, its memory is too small or too fragmented"
    )
