"""What a made-up fleet is built of, and the numbers that its parts have when they are healthy."""

from dataclasses import dataclass
from functools import cached_property

# One way, GB/s, of what NCCL's rings move over the 18 NVLinks of an H100: 450 on the wire
# (NVIDIA H100 datasheet: 900 both ways), of which 16 of 18 flits are data; our choice, so that the
# ring of two nodes with 392.69 (nccl-tests#309) fits below it.
NVLINK_GB_S = 400.0
# Bus bandwidth of an all-reduce in one node by NVLink SHARP, at 8 GiB: 479.72 on 8 × H100
# (ZiyanIshani/vpbenchmarking README).
NVLS_GB_S = 480.0
# PCIe 5.0 x16 for payloads of 256 B, as bandwidth/fabric.py derives it; 32 GT/s × 16 lanes.
SLOT_GB_S = 32 * 128 / 130 * 16 / 8 * 256 / 280
# What data through a CPU's memory reaches, of all NICs of one socket together: a node without
# GPUDirect RDMA reached 0.05 to 0.48 of its line (nccl#1676, nccl-tests#152, nccl#465). 0.3 here.
HOST_SHARE = 0.3
# TCP of one management port: 25GbE, of which NCCL's sockets use most (nccl#465: 35 % at 100G).
SOCKET_GB_S = 2.5
# A bit in 1e15 is wrong after error correction on a link that its maker calls good: IEEE 802.3ck
# demands 1e-12 at most, InfiniBand's NDR 1e-15 (NVIDIA, Cable Management Guidelines).
BIT_ERROR_RATE = 1e-15
# What a healthy fleet makes of its ceiling for a long message, before latencies: published healthy
# all-reduces lie between 0.80 and 0.98 (docs/measurements.md). Each made-up fleet has its own.
EFFICIENCY = (0.84, 0.98)
# One standard deviation of a repeated measurement; 1 % is what the issue of this fleet demands,
# and what nccl-tests#309's repeats differ by.
NOISE = 0.01
PACKET_BYTES = 4096


@dataclass(frozen=True)
class FleetShape:
    """A fleet's parts.

    GPU g is next to rail g · rails ÷ gpus. Each rail of a block of `per_leaf` nodes has a leaf
    switch, as in rail-optimised fabrics (NVIDIA DGX SuperPOD reference architecture), with as many
    uplinks as downlinks; if `adaptive`, packets are spread over all of these, else by hash. `sharp`
    is `used`, or a key of logs.NO_SHARP, where the site wants it.
    """

    nodes: int
    gpus: int = 8
    rails: int = 8
    gbps: float = 400.0
    kind: str = "roce"
    per_leaf: int = 32
    adaptive: bool = True
    nvls: bool = True
    memory_gib: int = 80
    nvlink_gb_s: float = NVLINK_GB_S
    nvls_gb_s: float = NVLS_GB_S
    slot_gb_s: float = SLOT_GB_S
    socket_gb_s: float = SOCKET_GB_S
    sharp: str = ""

    @property
    def line_gb_s(self) -> float:
        return self.gbps / 8

    @property
    def blocks(self) -> int:
        return -(-self.nodes // self.per_leaf)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(f"gpu{number + 1:03d}" for number in range(self.nodes))

    def block_of(self, node: int) -> int:
        return node // self.per_leaf

    def leaf_name(self, node: int) -> str:
        return f"leaf{self.block_of(node) + 1:02d}"

    def rail_of(self, gpu: int) -> int:
        return gpu * self.rails // self.gpus


def usual_shape(nodes: int) -> FleetShape:
    return FleetShape(nodes, per_leaf=max(2, min(32, nodes // 4)))
