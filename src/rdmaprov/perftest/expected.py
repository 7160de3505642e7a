"""What a path must reach: the line less encoding and headers, or what limits it more.

Sources of the sizes: InfiniBand Architecture Specification 1.6, volume 1, chapters 5 to 9 (LRH,
GRH, BTH, RETH, ICRC, VCRC) and annex A17 (RoCE v2: UDP over IP in place of LRH and GRH); IEEE 802.3
(preamble and start 8 B, gap 12 B, header 14 B, FCS 4 B).
"""

import math
from dataclasses import dataclass

from rdmaprov.bandwidth.rates import format_gb_s, format_percent

# Bytes of a packet that are no payload, apart from RETH, which a write's first packet has. IPv6
# has 20 more and a VLAN's tag 4: half a percent of a packet of 4,096 bytes, left out.
_ROCE_BYTES = 20 + 14 + 4 + 20 + 8 + 12 + 4  # gap and preamble, header, FCS, IP, UDP, BTH, ICRC
_INFINIBAND_BYTES = 8 + 12 + 4 + 2  # LRH, BTH, ICRC, VCRC
_RETH_BYTES = 16
# The rates in the names of InfiniBand's generations: SDR to QDR are before 8b/10b, FDR (56) before
# 64b/66b; from EDR (100) on, and with Ethernet, they are after encoding and error correction.
_ENCODED = {10.0: 8 / 10, 20.0: 8 / 10, 40.0: 8 / 10, 56.0: 64 / 66}

# A path is bad below this share of its ceiling. The lowest that a vendor's acceptance allows is 180
# of 200 Gb/s and, from GPU memory on H200, 360 of 400: 0.90 (Azure/azurehpc-health-checks, conf/);
# from host memory the same list demands 390 of 400. The least of them all is our choice.
BAD_SHARE_OF_CEILING = 0.90
# And below this share of what good paths of its kind reach: HPC-X ClusterKit's default.
BAD_SHARE_OF_GOOD = 0.93
# From GPU memory, of the same path from host memory. Azure's lists have 380 of 390 (H100) and 360
# of 390 (H200): 0.92 at least. A tenth is our choice.
GPU_SHARE = 0.90
# Of a ceiling that a result may exceed: clocks of two nodes, and rounding. Our choice.
MOST_SHARE = 1.02


@dataclass(frozen=True)
class Wire:
    """What a rail sends its packets over."""

    link_gbps: float  # the rate by which the link is known, Gb/s, such as 400
    kind: str = "roce"  # `roce` or `infiniband`
    mtu: int = 4096  # the most payload of a packet, bytes: the port's active MTU

    @property
    def line_gb_s(self) -> float:
        """Return the data rate, GB/s."""
        share = _ENCODED.get(self.link_gbps, 1.0) if self.kind == "infiniband" else 1.0
        return self.link_gbps * share / 8

    @property
    def header_bytes(self) -> int:
        """Return what each packet has beside its payload, bytes, with the gap to the next one."""
        return _INFINIBAND_BYTES if self.kind == "infiniband" else _ROCE_BYTES

    def payload_share(self, size: int) -> float:
        """Return the share of the data rate that is payload, of writes of this many bytes.

        The other direction's acknowledgements are left out: one for many packets, below 0.1 %.
        """
        packets = max(1, math.ceil(size / self.mtu))
        return size / (size + packets * self.header_bytes + _RETH_BYTES)


@dataclass(frozen=True)
class SlotLimit:
    """What a PCIe slot can carry, both ways at once."""

    gb_s: float  # of data in each direction, GB/s
    name: str  # of the slot, as a part of a sentence


@dataclass(frozen=True)
class PathCeiling:
    """The most that a path can carry."""

    gb_s: float  # payload, GB/s each way
    derivation: str  # how it follows, as a sentence


def path_ceiling(
    wire: Wire,
    size: int = 1 << 20,
    slot: SlotLimit | None = None,
    oversubscription: float = 1.0,
    crossing: float = 0.0,
) -> PathCeiling:
    """Return what a path carries at most.

    Args:
        wire: of its slower end.
        size: bytes of a message.
        slot: of its slower end; None if it is not known, so that it limits nothing.
        oversubscription: how much more the rails under a leaf can send than its uplinks carry.
        crossing: the share of the leaf's rails that send across at the same time; 0 for a path
            that stays under its leaf.
    """
    share = wire.payload_share(size)
    line = wire.line_gb_s * share
    how = (
        f"{wire.link_gbps:g} Gb/s carry {format_gb_s(wire.line_gb_s)}, of which "
        f"{100 * share:.1f} % is payload ({wire.header_bytes} B of headers for each {wire.mtu} B)"
    )
    best = PathCeiling(line, f"{how}: {format_gb_s(line)}.")
    if slot is not None and slot.gb_s < best.gb_s:
        said = (
            f"{slot.name} carries {format_gb_s(slot.gb_s)}, less than the line's "
            f"{format_gb_s(line)}."
        )
        best = PathCeiling(slot.gb_s, said)
    spread = oversubscription * crossing
    if spread > 1 and line / spread < best.gb_s:
        uplinks = line / spread
        said = (
            f"{how}; {format_percent(crossing)} of a leaf's rails share uplinks with an "
            f"oversubscription of {oversubscription:g}: {format_gb_s(uplinks)}."
        )
        best = PathCeiling(uplinks, said)
    return best


def least_sentence(ceiling: PathCeiling) -> str:
    """Return what a path must reach, and why, in sentences."""
    least = format_gb_s(BAD_SHARE_OF_CEILING * ceiling.gb_s)
    return (
        f"{ceiling.derivation} The best paths must reach {format_percent(BAD_SHARE_OF_CEILING)} of "
        f"it, {least}, and each {format_percent(BAD_SHARE_OF_GOOD)} of what good paths of its kind "
        "reach."
    )
