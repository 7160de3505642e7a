"""Hugepages for each size and NUMA node, running and after a reboot."""

import pytest
from testinfra.host import Host

from rdmaprov.facts import boot, hugepages, units
from rdmaprov.facts.hugepages import Hugepages
from rdmaprov.inventory import Node
from rdmaprov.validate.verdict import AFTER_REBOOT, Setting, not_applicable, reboot

pytestmark = pytest.mark.state

# Kernels with memory pages of 4 KiB have 2 MiB and 1 GiB, those of 64 KiB 2 MiB, 512 MiB and
# 16 GiB: Linux Documentation/arch/arm64/hugetlbpage.rst.
_KIB = {"16g": 16 << 20, "1g": 1 << 20, "512m": 512 << 10, "2m": 2 << 10}
_GIGANTIC = ("16g", "1g")


def test_2m_pages_running(host: Host, node: Node) -> None:
    """Each NUMA node has its 2 MiB pages."""
    _running(host, node, "2m")


def test_1g_pages_running(host: Host, node: Node) -> None:
    """Each NUMA node has its 1 GiB pages."""
    _running(host, node, "1g")


def test_512m_pages_running(host: Host, node: Node) -> None:
    """Each NUMA node has its 512 MiB pages."""
    _running(host, node, "512m")


def test_16g_pages_running(host: Host, node: Node) -> None:
    """Each NUMA node has its 16 GiB pages."""
    _running(host, node, "16g")


def test_default_size_running(host: Host, node: Node) -> None:
    """The default hugepage size is the site's."""
    wanted = _KIB.get(node.get("hugepages_default_size").lower())
    if wanted is None:
        not_applicable("the site leaves the default size unchanged (hugepages_default_size: keep)")
    seen = hugepages.read(host).default_kib
    where = "/proc/meminfo, Hugepagesize, KiB"
    setting = Setting(node, "kernel", "default hugepage size", "hugepages_default_size", where)
    setting.require(seen, wanted)


def test_pages_are_taken_after_reboot(host: Host, node: Node) -> None:
    """At boot, the unit allocates the pages that the kernel's command line does not."""
    here = hugepages.read(host)
    wanted = {
        (size, numa_node): pages
        for size in _KIB
        if _pages(node, size) and not _by_kernel(node, size)
        for numa_node, pages in _spread(node, here, size).items()
    }
    if not wanted:
        not_applicable("the site sets no hugepages that the unit allocates")
    for (size, numa_node), pages in wanted.items():
        name, where = f"hugepages of {_KIB[size]} KiB", hugepages.UNIT_PATH
        setting = Setting(
            node, f"NUMA node {numa_node}", name, _variable(node, size), where, AFTER_REBOOT
        )
        setting.require((here.unit or {}).get((_KIB[size], numa_node)), pages)


def test_unit_is_enabled_after_reboot(host: Host, node: Node) -> None:
    """The unit that allocates hugepages starts at boot."""
    if not any(_pages(node, size) and not _by_kernel(node, size) for size in _KIB):
        not_applicable("the site sets no hugepages that the unit allocates")
    where = f"systemctl show {hugepages.UNIT}"
    setting = Setting(node, hugepages.UNIT, "unit", "hugepages_2m_count", where, AFTER_REBOOT)
    setting.require(units.state_after_reboot(host, hugepages.UNIT), "enabled")


def test_kernel_was_started_for_hugepages(host: Host, node: Node) -> None:
    """The running kernel has exactly the site's hugepage arguments."""
    names = _arguments_of_the_site(node)
    wanted = _wanted_arguments(host, node)
    seen = boot.read(host).running
    Setting(
        node, "kernel", "command line", "hugepages_1g_count", where=seen.file, fix=reboot(node)
    ).require(seen.arguments(names), wanted)


def test_kernel_arguments_after_reboot(host: Host, node: Node) -> None:
    """Each kernel that may boot next gets exactly the site's hugepage arguments."""
    names = _arguments_of_the_site(node)
    wanted = _wanted_arguments(host, node)
    for entry in boot.read(host).entries:
        name = "command line"
        setting = Setting(node, entry.kernel, name, "hugepages_1g_count", entry.file, AFTER_REBOOT)
        setting.require(entry.arguments(names), wanted)


def _running(host: Host, node: Node, size: str) -> None:
    here = hugepages.read(host)
    wanted, seen = _spread(node, here, size), here.by_numa_node(_KIB[size])
    if not any(wanted.values()) and not any(seen.values()):
        return
    if not any(wanted.values()) and node.get("hugepages_unlisted") == "keep":
        not_applicable(
            "the site asks for none of this size and leaves others (hugepages_unlisted: keep)"
        )
    if here.doca and not any(wanted.values()):
        not_applicable(
            f"doca-hugepages manages this size ({hugepages.DOCA}); the site does not set it"
        )
    exact = bool(node.get(f"hugepages_{size}_per_numa_node"))
    if not exact and _fits(seen, wanted, _by_kernel(node, size)):
        return
    for numa_node, pages in wanted.items():
        name, where = f"hugepages of {_KIB[size]} KiB", hugepages.path_of(_KIB[size], numa_node)
        setting = Setting(node, f"NUMA node {numa_node}", name, _variable(node, size), where)
        setting.require(seen[numa_node], pages)


def _fits(seen: dict[int, int], wanted: dict[int, int], anywhere: bool) -> bool:
    """Return whether a total is right and spread over the NUMA nodes, give or take one."""
    if sum(seen.values()) != sum(wanted.values()):
        return False
    return anywhere or max(seen.values()) - min(seen.values()) <= 1


def _pages(node: Node, size: str) -> int:
    listed: list[int] = node.get(f"hugepages_{size}_per_numa_node")
    return sum(listed) if listed else int(node.get(f"hugepages_{size}_count"))


def _by_kernel(node: Node, size: str) -> bool:
    """Return whether the kernel takes the pages while it starts."""
    return size in _GIGANTIC and node.get("hugepages_1g_allocation") == "boot"


def _spread(node: Node, here: Hugepages, size: str) -> dict[int, int]:
    """Return the pages that each NUMA node must have."""
    listed: list[int] = node.get(f"hugepages_{size}_per_numa_node")
    if listed and len(listed) != len(here.numa_nodes):
        where = f"{hugepages.NODES}/has_normal_memory"
        setting = Setting(node, "NUMA nodes", "number", _variable(node, size), where)
        setting.reject(len(here.numa_nodes), len(listed))
    share, more = divmod(int(node.get(f"hugepages_{size}_count")), len(here.numa_nodes))
    spread = listed or [share + (place < more) for place in range(len(here.numa_nodes))]
    return dict(zip(here.numa_nodes, spread, strict=True))


def _variable(node: Node, size: str) -> str:
    listed = f"hugepages_{size}_per_numa_node"
    return listed if node.get(listed) else f"hugepages_{size}_count"


def _arguments_of_the_site(node: Node) -> tuple[str, ...]:
    """Return the names of the kernel arguments that the site determines, as the role does."""
    names = []
    if node.get("hugepages_default_size") != "keep":
        names.append("default_hugepagesz")
    asked = any(_pages(node, size) for size in _GIGANTIC)
    if asked or node.get("hugepages_unlisted") == "free":
        names += ["hugepagesz", "hugepages"]
    if not names:
        not_applicable("the site leaves the hugepage arguments of the kernel unchanged")
    return tuple(names)


def _wanted_arguments(host: Host, node: Node) -> tuple[str, ...]:
    here, default = hugepages.read(host), node.get("hugepages_default_size")
    # The kernel's own needs no argument; only kernels with memory pages of 64 KiB have 512 MiB.
    own = "512M" if here.has(_KIB["512m"]) else "2M"
    words = [] if default in ("keep", own) else [f"default_hugepagesz={default}"]
    for size in _GIGANTIC:
        if not _pages(node, size) or not _by_kernel(node, size):
            continue
        listed: list[int] = node.get(f"hugepages_{size}_per_numa_node")
        nodes = here.numa_nodes if listed else ()
        counts = ",".join(f"{n}:{c}" for n, c in zip(nodes, listed, strict=False) if c)
        words += [f"hugepagesz={size.upper()}", f"hugepages={counts or _pages(node, size)}"]
    return tuple(words)
