"""Hugepages of each size on each NUMA node, and those that a boot takes.

Source: Linux Documentation/admin-guide/mm/hugetlbpage.rst.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.processors import processors
from rdmaprov.facts.text import Files, read_files

NODES = "/sys/devices/system/node"
DOCA = "/etc/mellanox/hugepages.d/*"
UNIT = "rdmaprov-hugepages.service"
UNIT_PATH = f"/etc/systemd/system/{UNIT}"
_POOL = NODES + r"/node(\d+)/hugepages/hugepages-(\d+)kB/nr_hugepages"
_ARGUMENT = re.compile(NODES + r"/node(\d+)/hugepages/hugepages-(\d+)kB/nr_hugepages (\d+)")


@dataclass(frozen=True)
class Hugepages:
    """The pools of a node."""

    # those with memory that the kernel itself uses; GPU memory does not count
    numa_nodes: tuple[int, ...]
    # by page size in KiB and NUMA node, what the pool keeps; surplus pages left out
    pages: Mapping[tuple[int, int], int]
    # by page size and NUMA node, what the unit takes at each boot; None without a unit
    unit: Mapping[tuple[int, int], int] | None
    default_kib: int
    # whether doca-hugepages has pages to take; a size that the site does not name is its
    doca: bool

    def has(self, kib: int) -> bool:
        """Return whether the kernel has pages of a size."""
        return any(size == kib for size, _ in self.pages)

    def by_numa_node(self, kib: int) -> dict[int, int]:
        """Return the pages of a size by NUMA node; 0 where the machine has no such pages."""
        return {node: self.pages.get((kib, node), 0) for node in self.numa_nodes}


def path_of(kib: int, numa_node: int) -> str:
    """Return the kernel's file with the pages of a pool."""
    return f"{NODES}/node{numa_node}/hugepages/hugepages-{kib}kB/nr_hugepages"


def read(host: Host) -> Hugepages:
    """Return the node's hugepages.

    Raises:
        CouldNotTell: the kernel shows no NUMA node, or something that is no number.
    """
    pools = f"{NODES}/node*/hugepages/hugepages-*/"
    return parse(
        read_files(
            host,
            f"{NODES}/has_normal_memory",
            f"{NODES}/online",
            f"{pools}nr_hugepages",
            f"{pools}surplus_hugepages",
            "/proc/meminfo",
            UNIT_PATH,
            DOCA,
        )
    )


def parse(files: Files) -> Hugepages:
    """Return the hugepages in these files, as `read` does."""
    name = f"{NODES}/has_normal_memory"
    text = files.value(name) or files.must(f"{NODES}/online")
    nodes = tuple(sorted(processors(text, name)))
    if not nodes:
        raise CouldNotTell(f"{name} lists no NUMA node")
    pages = {}
    for match, _ in files.matching(_POOL):
        path = match[0]
        surplus = files.number(path.replace("nr_hugepages", "surplus_hugepages"))
        pages[int(match[2]), int(match[1])] = files.number(path) - surplus
    default = re.search(r"(?m)^Hugepagesize:\s+(\d+) kB$", files.must("/proc/meminfo"))
    if default is None:
        raise CouldNotTell(
            "/proc/meminfo shows no Hugepagesize: the kernel may lack hugepage support"
        )
    doca = any(True for _ in files.matching(r"/etc/mellanox/hugepages\.d/[^/]+"))
    return Hugepages(nodes, pages, _unit(files.get(UNIT_PATH)), int(default[1]), doca)


def _unit(text: str | None) -> dict[tuple[int, int], int] | None:
    if text is None:
        return None
    start = re.search(r"(?ms)^ExecStart=(.*?)(?<!\\)$", text)
    if start is None:
        raise CouldNotTell(f"{UNIT_PATH} has no ExecStart")
    return {(int(m[2]), int(m[1])): int(m[3]) for m in _ARGUMENT.finditer(start[1])}
