"""Hugepages, for each size and NUMA node, now and at boot. Runs on the node.

A unit takes them at boot, before anything else uses memory; sysctl.d cannot do it: vm.nr_hugepages
knows one size and no NUMA node.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from .. import bootloader, sysctl
from ..hugepages import hugetlb
from ..hugepages.hugetlb import Pool, directory_of, size_text
from ..machine import Machine
from ..plan import CONFIGURED, RUNNING, Change, Plan, Refused

UNIT = "rdmaprov-hugepages.service"
PATH = f"/etc/systemd/system/{UNIT}"
LINKS = "/etc/systemd/system/sysinit.target.wants"

# As in hugetlb.resize, without dropping caches: at boot there are none. Arguments: file, pages, …
SCRIPT = (
    'failed=0; while [ "$#" -gt 0 ]; do for attempt in 1 2 3; do echo "$2" > "$1"; '
    'read -r given < "$1"; [ "$given" != "$2" ] || break; '
    "echo 1 > /proc/sys/vm/compact_memory; done; "
    '[ "$given" = "$2" ] || { echo "$1: $given of $2 pages"; failed=1; }; '
    'shift 2; done; exit "$failed"'
)
_TEXT = """\
# Written by rdmaprov (hugepages); changes here are lost.
[Unit]
Description=Take the hugepages that rdmaprov describes
DefaultDependencies=no
After=systemd-sysctl.service
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c '{script}' sh{arguments}

[Install]
WantedBy=sysinit.target
"""
DOCA = "/etc/mellanox/hugepages.d"
_SYSCTLS = ("/proc/sys/vm/nr_hugepages", "/proc/sys/vm/nr_hugepages_mempolicy")
_DEFAULT_SIZE, _PAGES = ("default_hugepagesz",), ("hugepagesz", "hugepages")
# Linux b5389086ad7b: hugepages=NODE:PAGES,…
PER_NODE_ARGUMENT = (5, 16)


def at_boot(plan: Plan, pools: dict[tuple[int, int], int]) -> None:
    """Have the pools get their pages at each boot.

    Args:
        pools: pages by page size in KiB and NUMA node; none of them for no unit.
    """
    enabled = UNIT in plan.machine.names(LINKS)
    if pools:
        if plan.file(PATH, unit(pools)):
            plan.then(["systemctl", "daemon-reload"])
        if not enabled:
            change = Change(CONFIGURED, UNIT, "start at boot", "disabled", "enabled")
            plan.command(change, ["systemctl", "enable", UNIT])
        return
    if enabled:
        change = Change(CONFIGURED, UNIT, "start at boot", "enabled", "disabled")
        plan.add(change, lambda: plan.machine.remove(f"{LINKS}/{UNIT}"))
    if plan.absent(PATH):
        plan.then(["systemctl", "daemon-reload"])


def unit(pools: dict[tuple[int, int], int]) -> str:
    """Return the unit's text; large pages are taken first, and pools that shrink before others."""
    order = sorted(pools.items(), key=lambda item: (-item[0][0], item[1], item[0][1]))
    arguments = "".join(
        f" \\\n  {directory_of(numa_node, kib)}/nr_hugepages {pages}"
        for (kib, numa_node), pages in order
    )
    return _TEXT.format(script=SCRIPT.replace("$", "$$"), arguments=arguments)


def doca(machine: Machine) -> dict[int, int]:
    """Return what doca-hugepages takes at its next reload: pages by page size in KiB.

    It adds up what each application's file asks for and writes that for the whole node
    (Mellanox/mlnx-tools: tsbin/doca-hugepages).

    Raises:
        Refused: a file of its is not what it writes.
    """
    found: dict[int, int] = {}
    for name in machine.names(DOCA):
        if not name.endswith(".json"):
            continue
        try:
            for size, entry in json.loads(machine.read(f"{DOCA}/{name}") or "").items():
                found[int(size)] = found.get(int(size), 0) + int(entry["num"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Refused(
                f"{DOCA}/{name} is not what doca-hugepages writes, so its hugepages are "
                "unknown. Run on the node: doca-hugepages show"
            ) from error
    return {size: pages for size, pages in found.items() if pages}


def refuse_doca(kib: int, pages: int, theirs: int, variable: str) -> None:
    """Refuse another number than doca-hugepages has: its next reload would undo ours."""
    if pages and theirs and pages != theirs:
        raise Refused(
            f"doca-hugepages takes {theirs} pages of {kib} kB at its next reload ({DOCA}), "
            f"expected {pages}; write {variable}: {theirs}, or run on the node: "
            "doca-hugepages remove APP"
        )


def refuse_sysctl(machine: Machine, pages: int, variable: str) -> None:
    """Refuse another number than sysctl sets at boot, for pages of the default size."""
    found = sysctl.at_boot(machine)
    for path in _SYSCTLS:
        line = found.get(path)
        if line is not None and line.value != str(pages):
            raise Refused(
                f"{line.file}:{line.line}: sets vm.{path.rpartition('/')[2]} to {line.value} at "
                f"boot, expected {pages}; remove the line, or write {variable}: {line.value}"
            )


def plan(machine: Machine, arguments: dict[str, Any]) -> Plan:
    """Return what must change for the node to have its hugepages, now and after a boot."""
    plan = Plan(machine)
    theirs = doca(machine)
    _check_default_size(machine, arguments["default_size"])
    sizes = [choose(machine, arguments, size, theirs) for size in SIZES]
    check_memory(machine, sizes, theirs, arguments["left_bytes"])
    kernel = _kernel_arguments(machine, sizes, arguments["default_size"])
    _check_owners(machine, sizes, theirs, kernel, arguments["default_size"])
    # For the boot first: where the kernel has too few now, a reboot then helps.
    at_boot(plan, _pools_at_boot(sizes))
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
            f"with Linux 5.16); write {size.variable.replace('per_numa_node', 'count')}, or "
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
            f"command line ({DOCA}); write hugepages_1g_allocation: runtime and "
            "hugepages_default_size: keep, or run on the node: doca-hugepages remove APP"
        )
    seen = hugetlb.default_kib(machine) or SIZES["2m"]
    default = SIZES.get(default_size.lower(), seen)
    for size in sizes:
        refuse_doca(size.kib, size.pages, theirs.get(size.kib, 0), size.variable)
        if size.kib == default and not size.left_alone:
            refuse_sysctl(machine, size.pages, size.variable)


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


# In KiB. Kernels with memory pages of 4 KiB have 2 MiB and 1 GiB, those of 64 KiB have 2 MiB,
# 512 MiB and 16 GiB. [Linux Documentation/arch/arm64/hugetlbpage.rst]
SIZES = {"16g": 16 << 20, "1g": 1 << 20, "512m": 512 << 10, "2m": 2 << 10}
# Larger than what the kernel can put together once it runs, but for memory that nobody used yet.
GIGANTIC = ("16g", "1g")


@dataclass(frozen=True)
class Wanted:
    """What the site says of one page size."""

    kib: int
    variable: str
    per_numa_node: dict[int, int]  # pages by NUMA node
    exact: bool  # no NUMA node may have another number; else they may differ by one
    by_kernel: bool  # the kernel takes them while it boots, by its command line
    left_alone: bool  # the site asks for none, and they are to stay or are doca-hugepages'

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
