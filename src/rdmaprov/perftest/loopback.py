"""The bandwidth of a NIC's loopback through its node's memory, and the causes of a lower one.

A loopback never leaves the NIC: a write reads memory over the NIC's slot in one direction, and
writes memory in the other one, at the same time. So what it reaches is a property of the node
alone (Hostping, NSDI 2023, finds bottlenecks inside of hosts by it). Inside the NIC it is limited
to about the rate of the port: a ConnectX-5 of 100 Gb/s reached 105 (spdk/spdk#2741).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rdmaprov.bandwidth.rates import format_gb_s, format_percent
from rdmaprov.facts.pci_links import IDLE_GT_S, Hop, Link, narrowest

# Of the ceiling. A slot of half its width, or of the generation before, leaves half; our choice
# stays away from both sides.
LEAST_SHARE = 0.80
# Beside the writes, the same direction has the requests of the reads: 24 bytes for each 512, the
# MaxReadReq that PCI Express starts with; `Link.payload_gbps` has the headers of the writes.
_REQUESTS_SHARE = (256 + 24) / (256 + 24 + 24 * 256 / 512)


@dataclass(frozen=True)
class LoopbackCeiling:
    """The most that a loopback can carry."""

    gb_s: float  # in each direction, GB/s
    reason: str  # what limits it, as a part of a sentence

    @property
    def least_gb_s(self) -> float:
        """Return what a loopback must reach, GB/s."""
        return LEAST_SHARE * self.gb_s

    @property
    def sentence(self) -> str:
        """Return what must be reached, and why."""
        return (
            f"{self.reason}: {format_gb_s(self.gb_s)}; a loopback must reach "
            f"{format_percent(LEAST_SHARE)} of it, {format_gb_s(self.least_gb_s)}"
        )


def loopback_ceiling(port_gbps: float, *paths: Sequence[Hop]) -> LoopbackCeiling:
    """Return what a loopback carries at most, if each link runs at what its ends can do.

    Args:
        port_gbps: rate of the NIC's port, Gb/s.
        paths: the links from the CPU to the NIC, and to the GPU whose memory it is.
    """
    best = LoopbackCeiling(port_gbps / 8, f"a port of {port_gbps:g} Gb/s")
    for path in paths:
        for hop in path:
            gb_s = slot_gb_s(hop.most)
            if gb_s < best.gb_s:
                best = LoopbackCeiling(gb_s, f"the slot of {hop.address} ({hop.most})")
    return best


def slot_gb_s(link: Link) -> float:
    """Return what a link carries of a loopback, GB/s in each direction."""
    return link.payload_gbps * _REQUESTS_SHARE / 8


def degraded(path: Sequence[Hop], *, may_idle: bool = False) -> str:
    """Return which link runs below what its ends can do, empty if none does.

    A GPU that idles has slowed its link, and 2.5 GT/s is no rate of a NIC's that failed to train:
    both speed up under load. Lanes are not given up.
    """
    slow = [
        hop
        for hop in path
        if hop.current.width < hop.most.width
        or (not may_idle and IDLE_GT_S < hop.current.gt_s < hop.most.gt_s)
    ]
    if not slow:
        return ""
    worst = narrowest(slow)
    return f"the link of {worst.address} runs at {worst.current}, its ends can do {worst.most}"


@dataclass(frozen=True)
class MemoryPlace:
    """Where memory is, as seen from a NIC."""

    # whether it is where jobs use it from: its NUMA node, or a GPU under the same switch. What is
    # farther has no floor: it depends on the links between processors.
    is_near: bool
    reason: str = ""  # why it is not near; empty if it is


def host_place(nic_numa: int, memory_numa: int) -> MemoryPlace:
    """Return where memory of a NUMA node is; -1 is a NIC whose node the firmware does not say."""
    if nic_numa in (-1, memory_numa):
        return MemoryPlace(is_near=True)
    return MemoryPlace(is_near=False, reason=f"far memory: the NIC is on NUMA node {nic_numa}")


def gpu_place(nic: Sequence[str], gpu: Sequence[str], nic_numa: int, gpu_numa: int) -> MemoryPlace:
    """Return where a GPU is.

    Args:
        nic: PCI addresses from the root port to the NIC.
        gpu: likewise to the GPU.
        nic_numa: the NIC's NUMA node.
        gpu_numa: the GPU's.
    """
    if nic[:1] == gpu[:1] and nic:
        return MemoryPlace(is_near=True)
    if nic_numa != gpu_numa:
        return MemoryPlace(is_near=False, reason=f"far GPU: NUMA node {gpu_numa}")
    return MemoryPlace(is_near=False, reason="behind the CPU: no switch joins NIC and GPU")
