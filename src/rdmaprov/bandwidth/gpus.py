"""What GPUs of one node move between each other, from their names, until it has been measured."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from rdmaprov.bandwidth.fabric import Slot


@dataclass(frozen=True)
class IntraNode:
    """An all-reduce inside one node: its bus bandwidth in GB/s, and the algorithm."""

    gb_s: float
    algorithm: str


# Bus bandwidths of an all-reduce inside a node, as published; names are those of nvidia-smi. A card
# on PCIe comes before the chip that it shares its name with, with the slot that it is made for.
# H100, H200, H20: github.com/NVIDIA/nccl-tests/issues/272 (475; 480 in issues/212). H800: 215 in
# github.com/NVIDIA/nccl/issues/1374. B200 and its like: 846 in coreweave/nccl-tests README. A100:
# 232 in nccl-tests/issues/175. A800 and V100: the same share of their NVLink, 200 and 150 GB/s each
# way in NVIDIA's data sheets, of which A100 has 300.
_PUBLISHED: tuple[tuple[str, IntraNode | Slot], ...] = (
    (r"RTX 50|RTX PRO|\bH[12]00 (?:PCIe|NVL)", Slot(5, 16)),
    (r"RTX 20|\bT4\b|\bV100-PCI", Slot(3, 16)),
    (r"PCI[Ee]|GeForce|RTX|\bL4\b|\bL40S?\b|\bA10G?\b|\bA30\b|\bA40\b", Slot(4, 16)),
    (r"\bH800\b", IntraNode(215, "nvls")),
    (r"\bG?H[12]00\b|\bH20\b", IntraNode(475, "nvls")),
    (r"\bG?B[23]00\b", IntraNode(846, "nvls")),
    (r"\bA800\b", IntraNode(155, "ring")),
    (r"\bA100\b", IntraNode(232, "ring")),
    (r"\bV100\b", IntraNode(116, "ring")),
)
# Of these, for a message.
KNOWN = "H100, H200, H20, H800, GH200, B200, B300, GB200, GB300, A100, A800, V100, RTX, L40S, T4"
# By PCIe, 28 of 57.6 GB/s with eight RTX 5090 (github.com/NVIDIA/nccl/issues/1639), 20 of 28.8
# where pairs of A100 have NVLink (github.com/NVIDIA/nccl-tests/issues/178).
PCIE_SHARE = 0.48


# Hopper and HGX B200 are of PCIe 5 (NVIDIA's data sheets). The GPUs of HGX B300 are joined to their
# ConnectX-8 by PCIe 6, and those of Grace reach NICs by NVLink-C2C, which carries more than that.
_SLOTS = (
    (r"\b(GH200|GB[23]00|B300)\b", Slot(6, 16)),
    (r"\b(H[12]00|H800|H20|B200)\b", Slot(5, 16)),
)


def slot_of(names: Collection[str]) -> Slot | None:
    """Return the slot by which GPUs of one kind reach NICs; None: not known, or of several."""
    found = {
        next((slot for pattern, slot in _SLOTS if re.search(pattern, name, re.I)), None)
        for name in names
    }
    return found.pop() if len(found) == 1 else None


def intra_node(names: Collection[str], slot: Slot) -> IntraNode | None:
    """Return what the weakest of some GPUs reaches inside its node; None: no GPU is known."""
    known = [found for name in set(names) if (found := _published(name, slot))]
    return min(known, key=lambda found: found.gb_s, default=None)


def _published(name: str, slot: Slot) -> IntraNode | None:
    for pattern, found in _PUBLISHED:
        if re.search(pattern, name, re.I):
            if isinstance(found, IntraNode):
                return found
            return IntraNode(PCIE_SHARE * min(found.gb_s, slot.gb_s), "ring")
    return None
