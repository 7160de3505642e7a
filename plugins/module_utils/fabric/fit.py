"""Whether a node is the machine that the site describes. Runs on the node."""

from __future__ import annotations

import re
from typing import Any

from .. import pci
from ..hugepages import hugetlb
from ..machine import Machine, NodeError
from ..plan import Refused
from ..rails import Rail

# Linux include/uapi/linux/if_arp.h: ARPHRD_ETHER, ARPHRD_INFINIBAND; what the kernel calls
# the link layer of an RDMA port: drivers/infiniband/core/sysfs.c, link_layer_show.
_KINDS = {"roce": ("1", "Ethernet"), "infiniband": ("32", "InfiniBand")}
# The kernel keeps 1/64 for its page structures, and more for itself: as much as a small machine's
# 256 MiB. A lost memory module is more: one of 16 is 1/16.
_KERNELS_SHARE = 1 / 25
_KERNELS_BYTES = 256 << 20


def require(machine: Machine, rails: list[Rail], arguments: dict[str, Any]) -> None:
    """Do nothing for a node that fits.

    Raises:
        Refused: it does not; nothing may be written on it.
    """
    for rail in rails:
        _require_kind(machine, rail, arguments["kind"])
    _require_memory(machine, arguments["memory_bytes"])
    _require_numa_nodes(machine, arguments["numa_nodes"])
    _require_gpus(machine, arguments["gpu_count"])


def _require_kind(machine: Machine, rail: Rail, kind: str) -> None:
    hardware, layer = _KINDS[kind]
    path = f"/sys/class/net/{rail.port}/type"
    if rail.port and machine.value(path) != hardware:
        raise Refused(
            f"rail {rail.index}: {rail.port} has the hardware type {machine.value(path)}, "
            f"expected {hardware} for fabric_kind: {kind} ({path}). Correct fabric_kind or the "
            "rail; Ethernet for storage beside InfiniBand is no rail: leave it out of fabric_rails"
        )
    path = f"/sys/class/infiniband/{rail.rdma}/ports/1/link_layer"
    if rail.rdma and machine.value(path) != layer:
        raise Refused(
            f"rail {rail.index}: {rail.rdma} has the link layer {machine.value(path)}, expected "
            f"{layer} for fabric_kind: {kind} ({path}). Correct fabric_kind, or the port's type "
            "(mlxconfig: LINK_TYPE_P1)"
        )


def _require_memory(machine: Machine, described: int | None) -> None:
    if described is None:
        return
    found = re.search(r"MemTotal:\s+(\d+) kB", machine.read("/proc/meminfo") or "")
    if found is None:
        raise NodeError("/proc/meminfo has no MemTotal, so the node's memory is not known")
    seen = int(found.group(1)) * 1024
    if seen < described * (1 - _KERNELS_SHARE) - _KERNELS_BYTES:
        raise Refused(
            f"the node has {seen / (1 << 30):.1f} GiB of memory, expected "
            f"{described / (1 << 30):.1f} (fabric_memory_bytes; /proc/meminfo). "
            "Is a memory module missing? Run on the node: dmidecode --type memory"
        )


def _require_numa_nodes(machine: Machine, described: int | None) -> None:
    if described is None:
        return
    seen = len(hugetlb.numa_nodes(machine))
    if seen < described:
        raise Refused(
            f"the node has {seen} NUMA nodes, expected {described} (fabric_numa_nodes; "
            "/sys/devices/system/node). Look for NPS, SNC and interleaving in the firmware's setup"
        )


def _require_gpus(machine: Machine, described: int) -> None:
    seen = len(pci.gpus(machine))
    if described and seen != described:
        raise Refused(
            f"the node has {seen} GPUs, expected {described} (fabric_gpu_count; "
            "/sys/bus/pci/devices). Run on the node: lspci -nn -d ::0302"
        )
