"""What an all-reduce runs over: nodes, GPUs, rails, and the slots that they sit in."""

import math
from dataclasses import dataclass

from rdmaprov.errors import UsageError

MAX_NODES = 100_000
_MAX_PER_NODE = 256
_MAX_LINK_GBPS = 1600  # two ports of 800G; more is another unit
# Data rate of one lane in Gb/s, encoding included: PCI Express Base Specification 6.0, section
# 1.1: 128b/130b for generations 3 to 5, flits of 242 bytes in 256 for 6.
_LANE_GBPS = {3: 8 * 128 / 130, 4: 16 * 128 / 130, 5: 32 * 128 / 130, 6: 64 * 242 / 256}
# A write of 256 bytes, the usual maximum payload, carries 24 more: framing and sequence 4, header
# with 64-bit address 16, LCRC 4. PCI Express Base Specification 5.0, sections 2.2.1 and 3.6.2.
_PAYLOAD = 256 / (256 + 24)


# What slots of PCIe 5 and 6 with 16 lanes carry, GB/s.
_GEN5_GB_S, _GEN6_GB_S = 57.6, 110.6


class FabricError(UsageError):
    """Numbers that no fabric has."""


@dataclass(frozen=True)
class Slot:
    """A PCIe slot: generation 3 to 6, and its lanes."""

    generation: int
    lanes: int

    @property
    def gb_s(self) -> float:
        """Return what the slot carries in each direction, in GB/s of payload."""
        return _LANE_GBPS[self.generation] * self.lanes / 8 * _PAYLOAD

    def __str__(self) -> str:
        """Return its name, such as `PCIe 5.0 x16`."""
        return f"PCIe {self.generation}.0 x{self.lanes}"


def slot_like(gt_s: float, lanes: int) -> Slot | None:
    """Return the slot of a rate in GT/s and of lanes; None if there is none."""
    generation = {8: 3, 16: 4, 32: 5, 64: 6}.get(round(gt_s))
    return Slot(generation, lanes) if generation and lanes in {1, 2, 4, 8, 16} else None


def parse_slot(text: str) -> Slot:
    """Return the slot that a text such as `5x16` means; raise FabricError if it means none."""
    generation, _, lanes = text.partition("x")
    if generation in {"3", "4", "5", "6"} and lanes in {"1", "2", "4", "8", "16"}:
        return Slot(int(generation), int(lanes))
    raise FabricError(
        f"PCIe slot {text!r} is not GENxLANES",
        "Pass the generation (3 to 6), an x and the lanes (1 to 16), such as 5x16.",
    )


@dataclass(frozen=True)
class Fabric:
    """The parts that limit a collective."""

    nodes: int
    gpus_per_node: int  # GPUs of each node that take part
    rails: int
    link_gbps: float  # line rate of one rail, in Gb/s
    oversubscription: float = 1.0  # how much more the rails could send than the spines carry
    pcie: Slot | None = None  # the slot of a card; None: it carries what its rails need
    # nodes that share one NVLink domain and use it, such as 18 in an NVL72 rack; 1 with
    # NCCL_MNNVL_ENABLE=0
    nvlink_nodes: int = 1
    # bus bandwidth of an all-reduce inside one node, measured or from its GPUs; None: not known, so
    # it limits nothing
    intra_node_gb_s: float | None = None
    intra_node_by: str = ""  # the algorithm of that all-reduce; empty if it is not known
    # the slot of a GPU; None: of the generation that its share of the rails needs
    gpu_pcie: Slot | None = None
    cards: int = 0  # that the rails of a node are on; 0: each on its own
    collective: str = "all_reduce"  # what runs; one of ceiling.COLLECTIVES
    efa: bool = False  # whether the rails are Amazon's Elastic Fabric Adapters

    @property
    def ranks(self) -> int:
        """Return the number of GPUs in all."""
        return self.nodes * self.gpus_per_node

    @property
    def domains(self) -> int:
        """Return between how many NVLink domains the rails carry the data."""
        return math.ceil(self.nodes / self.nvlink_nodes)

    @property
    def gpu_slot(self) -> Slot:
        """Return the slot of a GPU, by which its data reaches the rails."""
        share = self.rails * self.link_gbps / 8 / self.gpus_per_node
        # More than PCIe 6 carries is more than a GPU is made for: rails that it cannot fill.
        made_for = share if share <= _GEN6_GB_S else self.link_gbps / 8
        return self.gpu_pcie or Slot(6 if made_for > _GEN5_GB_S else 5, 16)

    @property
    def is_guessed(self) -> bool:
        """Return whether nothing but the rails says that a GPU's slot is of PCIe 6."""
        return self.gpu_pcie is None and self.gpu_slot.generation > 5

    @property
    def rail_gb_s(self) -> float:
        """Return what one rail carries in each direction, in GB/s."""
        line = self.link_gbps / 8
        share = (self.cards or self.rails) / self.rails
        return min(line, self.pcie.gb_s * share) if self.pcie else line

    @property
    def node_gb_s(self) -> float:
        """Return what a node sends and receives at once, in GB/s each way."""
        return min(self.rails * self.rail_gb_s, self.gpus_per_node * self.gpu_slot.gb_s)


# Attribute → option, and the numbers that it may have.
_BOUNDS: dict[str, tuple[str, float, float]] = {
    "nodes": ("--nodes", 1, MAX_NODES),
    "gpus_per_node": ("--gpus-per-node", 1, _MAX_PER_NODE),
    "rails": ("--rails", 1, _MAX_PER_NODE),
    "link_gbps": ("--link-gbps", 1, _MAX_LINK_GBPS),
    "oversubscription": ("--oversubscription", 1, 100),
    "nvlink_nodes": ("--nvlink-nodes", 1, MAX_NODES),
}
_MAX_INTRA_NODE_GB_S = 10_000
_WHY = {
    "link_gbps": "it is the line rate of one rail, in Gb/s",
    "oversubscription": "1 is a non-blocking fabric",
}


def check_fabric(fabric: Fabric) -> Fabric:
    """Return the fabric if its numbers are possible.

    Raises:
        FabricError: a number is outside its bounds, or no data leaves an NVLink domain.
    """
    for attribute, (option, low, high) in _BOUNDS.items():
        value = getattr(fabric, attribute)
        if not low <= value <= high:  # not-a-number is outside, too
            why = f": {_WHY[attribute]}" if attribute in _WHY else ""
            raise FabricError(
                f"{option} must be from {low:g} to {high:g}, not {value:g}{why}",
                f"Pass {option} with a number from {low:g} to {high:g}.",
            )
    if fabric.ranks < 2:
        raise FabricError("one GPU alone reduces nothing", "Pass more nodes or GPUs.")
    if fabric.collective == "alltoall" and (fabric.nvlink_nodes > 1 or fabric.domains < 2):
        raise FabricError(
            "an alltoall by NVLink has no floor: too few measurements are published",
            "Pass two nodes or more and --nvlink-nodes 1 for the rails (NCCL_MNNVL_ENABLE=0).",
        )
    inside = fabric.intra_node_gb_s
    if inside is not None and not 0 < inside <= _MAX_INTRA_NODE_GB_S:
        raise FabricError(
            f"--intra-node {inside:g} is not a bandwidth inside a node",
            f"Pass it in GB/s, above 0 and up to {_MAX_INTRA_NODE_GB_S}.",
        )
    if fabric.domains < 2 and inside is None:
        who, what = "one node", "its GPUs"
        if fabric.nodes > 1:
            who, what = f"{fabric.nodes} nodes of one NVLink domain", "they"
        raise FabricError(
            f"an all-reduce of {who} uses no rail: {what} share NVLink or "
            "PCIe, whose bandwidth is not known",
            "Pass --intra-node with the bus bandwidth of one node alone, or --nvlink-nodes 1 for "
            "the rails (NCCL_MNNVL_ENABLE=0).",
        )
    return fabric
