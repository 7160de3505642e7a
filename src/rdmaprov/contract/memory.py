"""Hugepages fit the node, and limits say what the kernel understands."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rdmaprov.contract.rule import Finding, Rule
from rdmaprov.inventory.model import Node

_HUGETLB = "Linux Documentation/admin-guide/mm/hugetlbpage.rst"
_SIZES = {"2m": 2 << 20, "1g": 1 << 30}
# sysctl → the setting that owns it.
_OWNED = {
    "vm.nr_hugepages": "hugepages_2m_count",
    "vm.nr_hugepages_mempolicy": "hugepages_2m_count",
    "kernel.numa_balancing": "pcie_numa_balancing",
    "net.ipv4.conf.all.arp_ignore": "fabric_source_routing",
    "net.ipv4.conf.all.arp_announce": "fabric_source_routing",
    "net.ipv4.conf.all.rp_filter": "fabric_source_routing",
}
_PORTS = "net.ipv4.ip_local_port_range"


def _pages(node: Node, size: str) -> int:
    per_numa_node = node.get(f"hugepages_{size}_per_numa_node") or []
    return sum(per_numa_node) or node.get(f"hugepages_{size}_count") or 0


def _fit(node: Node) -> Iterator[Finding]:
    memory, left = node.get("fabric_memory_bytes"), node.get("hugepages_left_bytes")
    if memory is None or left is None:
        return
    taken = sum(_pages(node, size) * in_bytes for size, in_bytes in _SIZES.items())
    if taken and taken + left > memory:
        gib = 1 << 30
        message = (
            f"hugepages of {taken / gib:.1f} GiB leave less than {left / gib:.1f} GiB "
            f"of the node's {memory / gib:.1f} GiB"
        )
        names = [f"hugepages_{size}_{kind}" for size in ("1g", "2m")
                 for kind in ("per_numa_node", "count")]  # fmt: skip
        used = [name for name in names if node.get(name)]
        yield Finding(used[0], message, "write fewer pages", (), tuple(used[1:]))


def _once(node: Node) -> Iterator[Finding]:
    for size in _SIZES:
        name = f"hugepages_{size}_per_numa_node"
        if node.get(name) and node.get(f"hugepages_{size}_count"):
            message = f"hugepages_{size}_count is given as well"
            yield Finding(name, message, "remove one of the two")


def _numa(node: Node) -> Iterator[Finding]:
    nodes = node.get("fabric_numa_nodes")
    for size in _SIZES:
        name = f"hugepages_{size}_per_numa_node"
        counts = node.get(name) or []
        if nodes is not None and counts and len(counts) != nodes:
            message = f"{len(counts)} counts for {nodes} NUMA nodes"
            yield Finding(name, message, f"write {nodes} counts")


def _reboot(node: Node) -> Iterator[Finding]:
    if not _pages(node, "1g") or node.get("hugepages_1g_allocation") != "boot":
        return
    if node.get("reboot_policy") == "never":
        names = ("hugepages_1g_count", "hugepages_1g_per_numa_node")
        message = "1 GiB pages are taken at boot, and reboot_policy is never"
        remedy = "write reboot_policy: if-needed, or hugepages_1g_allocation: runtime"
        yield Finding("reboot_policy", message, remedy, (), names)


def _memlock(node: Node) -> Iterator[Finding]:
    memlock = node.get("limits_memlock")
    if memlock is None or memlock == "unlimited":
        return
    if not re.fullmatch(r"\d+", memlock):
        message = f"'{memlock}' is neither unlimited nor a number of KiB"
        yield Finding("limits_memlock", message, "write unlimited")
    elif int(memlock) < 1 << 20:
        message = f"{memlock} KiB is too little: RDMA locks every buffer it registers"
        yield Finding("limits_memlock", message, "write unlimited")


def _sysctl(node: Node) -> Iterator[Finding]:
    for name, value in (node.get("limits_sysctl") or {}).items():
        if not re.fullmatch(r"[a-z0-9_]+([./][A-Za-z0-9_:-]+)+", str(name)):
            message, remedy = (
                f"'{name}' is not the name of a setting",
                "write such as vm.swappiness",
            )
        elif str(name) in _OWNED:
            message, remedy = f"{name} has a setting of its own", f"write {_OWNED[str(name)]}"
        elif isinstance(value, (list, dict, bool)) or value is None:
            message, remedy = f"{name} wants a number or a text", "write sysctl's own text"
        elif name == _PORTS and not _is_port_range(str(value)):
            message = f"{name} wants the first and the last port, and '{value}' is not that"
            remedy = "write '32768 60999'"
        else:
            continue
        yield Finding("limits_sysctl", message, remedy, (name,))


def _is_port_range(text: str) -> bool:
    found = re.fullmatch(r"(\d+)\s+(\d+)", text)
    return found is not None and 0 < int(found[1]) < int(found[2]) <= 65535


RULES = (
    Rule("memory.fit", "Hugepages leave memory for the system.", _HUGETLB, _fit),
    Rule("memory.once", "Pages are counted by node or by NUMA node, not both.", _HUGETLB, _once),
    Rule("memory.numa", "Counts by NUMA node are as many as NUMA nodes.", _HUGETLB, _numa),
    Rule("memory.reboot", "1 GiB pages taken at boot may reboot the node.", _HUGETLB, _reboot),
    Rule("limits.memlock", "Locked memory is unlimited, or large.", "man limits.conf.5", _memlock),
    Rule("limits.sysctl", "Kernel settings have one owner, and values of their form.",
         "Linux Documentation/networking/ip-sysctl.rst", _sysctl),
)  # fmt: skip
