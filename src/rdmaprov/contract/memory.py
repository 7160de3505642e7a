"""Hugepages fit into the node's memory, and limits have values that the kernel accepts."""

import re
from collections.abc import Iterator

from rdmaprov.contract.rule import Rule, Violation
from rdmaprov.inventory.model import Node
from rdmaprov.inventory.partitions import interface_of, partition_key

_HUGETLB = "Linux Documentation/admin-guide/mm/hugetlbpage.rst"
_ARM = "Linux Documentation/arch/arm64/hugetlbpage.rst"
_SIZES = {"2m": 2 << 20, "1g": 1 << 30, "512m": 512 << 20, "16g": 16 << 30}
_GIGANTIC = {"1g": "1 GiB", "16g": "16 GiB"}
# Of kernels with memory pages of 64 KiB alone, which have none of 1 GiB.
_OF_64K = ("512m", "16g")
# sysctl → the variable that sets it.
_OWN_SETTING = {
    "vm.nr_hugepages": "hugepages_2m_count",
    "vm.nr_hugepages_mempolicy": "hugepages_2m_count",
    "kernel.numa_balancing": "pcie_numa_balancing",
    "net.ipv4.conf.all.arp_ignore": "fabric_source_routing",
    "net.ipv4.conf.all.arp_announce": "fabric_source_routing",
    "net.ipv4.conf.all.rp_filter": "fabric_source_routing",
}
# Of each rail with an IPv4 address, by fabric_source_routing.
_OF_RAILS = ("arp_ignore", "arp_announce", "rp_filter")
_IPV4 = 4
_PORTS = "net.ipv4.ip_local_port_range"


def _pages(node: Node, size: str) -> int:
    per_numa_node = node.get(f"hugepages_{size}_per_numa_node") or []
    return sum(per_numa_node) or node.get(f"hugepages_{size}_count") or 0


def _memory_left(node: Node) -> Iterator[Violation]:
    memory, left = node.get("fabric_memory_bytes"), node.get("hugepages_left_bytes")
    if memory is None or left is None:
        return
    taken = sum(_pages(node, size) * in_bytes for size, in_bytes in _SIZES.items())
    if taken and taken + left > memory:
        gib = 1 << 30
        message = (
            f"hugepages take {taken / gib:.1f} of {memory / gib:.1f} GiB, "
            f"which leaves less than {left / gib:.1f} GiB (hugepages_left_bytes)"
        )
        names = [
            f"hugepages_{size}_{kind}"
            for size in ("16g", "1g", "512m", "2m")
            for kind in ("per_numa_node", "count")
        ]
        used = [name for name in names if node.get(name)]
        yield Violation(used[0], message, "write a lower page count", (), tuple(used[1:]))


def _counted_once(node: Node) -> Iterator[Violation]:
    for size in _SIZES:
        name = f"hugepages_{size}_per_numa_node"
        if node.get(name) and node.get(f"hugepages_{size}_count"):
            message = f"hugepages_{size}_count is set too"
            yield Violation(name, message, "remove one of the two")


def _numa_counts(node: Node) -> Iterator[Violation]:
    nodes = node.get("fabric_numa_nodes")
    for size in _SIZES:
        name = f"hugepages_{size}_per_numa_node"
        counts = node.get(name) or []
        if nodes is not None and counts and len(counts) != nodes:
            message = f"the list length is {len(counts)}, but fabric_numa_nodes is {nodes}"
            yield Violation(name, message, "write one count for each NUMA node")


def _boot_allocation(node: Node) -> Iterator[Violation]:
    if node.get("hugepages_1g_allocation") != "boot" or node.get("reboot_policy") != "never":
        return
    for size, text in _GIGANTIC.items():
        if _pages(node, size):
            names = (f"hugepages_{size}_count", f"hugepages_{size}_per_numa_node")
            message = f"{text} pages are allocated at boot, but reboot_policy is never"
            remedy = "write reboot_policy: if-needed, or hugepages_1g_allocation: runtime"
            yield Violation("reboot_policy", message, remedy, (), names)


def _one_kernel(node: Node) -> Iterator[Violation]:
    for size in _OF_64K:
        if _pages(node, "1g") and _pages(node, size):
            names = [f"hugepages_{size}_{kind}" for kind in ("count", "per_numa_node")]
            used = [name for name in names if node.get(name)]
            message = "no kernel has these pages and those of 1 GiB"
            yield Violation(used[0], message, "remove one of the two", (), tuple(used[1:]))


def _memlock(node: Node) -> Iterator[Violation]:
    memlock = node.get("limits_memlock")
    if memlock is None or memlock == "unlimited":
        return
    if not re.fullmatch(r"\d+", memlock):
        message = f"'{memlock}' is not 'unlimited' or a number of KiB"
        yield Violation("limits_memlock", message, "write unlimited")
    elif int(memlock) < 1 << 20:
        message = f"{memlock} KiB is too small: RDMA locks every buffer that it registers"
        yield Violation("limits_memlock", message, "write unlimited")


def _own_settings(node: Node) -> dict[str, str]:
    """Return the variable that sets a sysctl; names with slashes, as sysctl.d(5) has them too."""
    own = {name.replace(".", "/"): variable for name, variable in _OWN_SETTING.items()}
    for rail in node.rails if node.get("fabric_source_routing") else ():
        if rail.netdev and rail.address is not None and rail.address.version == _IPV4:
            key = partition_key(rail.ipoib_pkey)
            netdev = interface_of(rail.netdev, key) if key else rail.netdev
            path = f"net/ipv4/conf/{netdev}"
            own |= {f"{path}/{name}": "fabric_source_routing" for name in _OF_RAILS}
    return own


def _with_slashes(name: str) -> str:
    """Return a sysctl's name as a path: the first separator tells which one it is written with."""
    if "/" in name.partition(".")[0]:
        return name
    return name.translate(str.maketrans("./", "/."))


def _sysctl(node: Node) -> Iterator[Violation]:
    own = _own_settings(node)
    for name, value in (node.get("limits_sysctl") or {}).items():
        if not re.fullmatch(r"[a-z0-9_]+([./][A-Za-z0-9_:-]+)+", str(name)):
            message = f"'{name}' is not a sysctl name"
            remedy = "write a full name, such as vm.swappiness"
        elif variable := own.get(_with_slashes(str(name))):
            message = f"{name} has its own variable"
            remedy = f"set {variable} instead"
        elif isinstance(value, (list, dict, bool)) or value is None:
            message, remedy = (
                f"{name} is not a number or text",
                "write the value as sysctl prints it",
            )
        elif name == _PORTS and not _is_port_range(str(value)):
            message = f"'{value}' is not a first and a last port"
            remedy = "write '32768 60999'"
        else:
            continue
        yield Violation("limits_sysctl", message, remedy, (name,))


def _is_port_range(text: str) -> bool:
    found = re.fullmatch(r"(\d+)\s+(\d+)", text)
    return found is not None and 0 < int(found[1]) < int(found[2]) <= 65535


RULES = (
    Rule("memory.fit", "Hugepages leave enough memory for the system.", _HUGETLB, _memory_left),
    Rule("memory.once", "Page counts are per node or per NUMA node, not both.",
         _HUGETLB, _counted_once),
    Rule("memory.numa", "Page counts per NUMA node list every NUMA node.",
         _HUGETLB, _numa_counts),
    Rule("memory.sizes", "Pages of 512 MiB or 16 GiB are not beside pages of 1 GiB.",
         _ARM, _one_kernel),
    Rule("memory.reboot", "1 GiB and 16 GiB pages taken at boot need a policy that allows reboots.",
         _HUGETLB, _boot_allocation),
    Rule("limits.memlock", "Locked memory is unlimited or at least 1 GiB.",
         "man limits.conf.5", _memlock),
    Rule("limits.sysctl", "A sysctl is valid, and no other variable sets it.",
         "Linux Documentation/networking/ip-sysctl.rst", _sysctl),
)  # fmt: skip
