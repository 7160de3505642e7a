"""Faults that explain a slow number, each with the share of the ceiling that is left with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rdmaprov.bandwidth import ceiling
from rdmaprov.bandwidth.efficiency import MAX_EFFICIENCY, efficiency
from rdmaprov.bandwidth.fabric import Fabric, Slot

_ISSUE = "github.com/NVIDIA/{}/issues/{}"
# A socket runs over the management network: 100 Gb/s is a fast one.
_MANAGEMENT_GB_S = 100 / 8


@dataclass(frozen=True)
class Signature:
    """A fault and the share of the ceiling that is left with it.

    Args:
        id: its name in documents.
        cause: what is wrong, in a few words.
        left: lowest and highest share of the ceiling that is left, for a fabric.
        check: what distinguishes it from the others.
        source: where the share comes from.

    """

    id: str
    cause: str
    left: Callable[[Fabric], tuple[float, float]]
    check: str
    source: str


@dataclass(frozen=True)
class Cause:
    """A cause that fits a measurement; the shares are of the ceiling."""

    id: str
    cause: str
    expected_ratio: tuple[float, float]
    expected_gb_s: tuple[float, float]
    check: str
    source: str


def _share(factor: Callable[[Fabric], float]) -> Callable[[Fabric], tuple[float, float]]:
    """Return the shares that are left by a fault that scales a healthy number by a factor.

    On two and three nodes a healthy number may be a tree's, above a ring's ceiling.
    """

    def left(fabric: Fabric) -> tuple[float, float]:
        tree = ceiling.max_gb_s(fabric, "tree") / ceiling.ring_gb_s(fabric)
        scale = factor(fabric)
        return scale * efficiency(fabric), scale * MAX_EFFICIENCY * max(1.0, tree)

    return left


def half_slot(fabric: Fabric) -> Slot:
    """Return the slot of half the rate that a rail needs, such as half the lanes."""
    needed = next(
        Slot(generation, 16)
        for generation in (3, 4, 5, 6)
        if generation == 6 or Slot(generation, 16).gb_s >= fabric.link_gbps / 8
    )
    return Slot(needed.generation, needed.lanes // 2)


def _half_slot(fabric: Fabric) -> float:
    return min(1.0, half_slot(fabric).gb_s / fabric.rail_gb_s)


def _socket(fabric: Fabric) -> tuple[float, float]:
    return 0.0, min(0.35, _MANAGEMENT_GB_S / ceiling.ring_gb_s(fabric))


SIGNATURES = (
    Signature(
        "rail-missing",
        "one rail carries nothing",
        _share(lambda fabric: (fabric.rails - 1) / fabric.rails),
        "bytes of each rail before and after; NCCL's line `NET/IB : Using` names the rails in use",
        f"(R - 1) / R, as the other rails share the data: {_ISSUE.format('nccl-tests', 380)}",
    ),
    Signature(
        "half-slot",
        "one rail's PCIe link runs at half its width or generation",
        _share(_half_slot),
        "current_link_speed and current_link_width of each rail's device",
        "half the slot that the rate needs; channels have equal shares, so the slowest rail sets "
        "the pace",
    ),
    Signature(
        "half-path",
        "ACS redirect, or rails on the other NUMA node or behind the CPU",
        lambda _fabric: (0.39, 0.5),
        "ACSCtl of the bridges; nvidia-smi topo -m",
        f"0.39 {_ISSUE.format('nccl-tests', 112)}, half {_ISSUE.format('nccl-tests', 347)}",
    ),
    Signature(
        "paths-collide",
        "flows share paths: no adaptive routing, too few queue pairs",
        _share(lambda _fabric: 1 / 1.7),
        "marks, CNPs and pauses of each rail; the spines' links are unevenly loaded",
        "1 / 1.7: github.com/NVIDIA/cluster-readiness-engine/pull/287",
    ),
    Signature(
        "oversubscribed",
        "the spines carry half of what the leaves send",
        _share(lambda _fabric: 0.5),
        "the same run inside one leaf is fast; pass --oversubscription if it is intended",
        "1 / 2 for 2:1",
    ),
    Signature(
        "no-gdr",
        "no GPUDirect RDMA: the data goes through the CPU's memory",
        lambda _fabric: (0.05, 0.76),
        "NCCL's channel lines lack /GDRDMA; nvidia_peermem, dma-buf",
        f"0.05 {_ISSUE.format('nccl', 1676)}, 0.30 {_ISSUE.format('nccl-tests', 152)}, "
        f"0.48 {_ISSUE.format('nccl', 465)}, 0.76 on one rail of 100G",
    ),
    Signature(
        "one-rail",
        "one rail carries all",
        _share(lambda fabric: 1 / fabric.rails),
        "bytes of each rail before and after; NCCL_IB_HCA",
        f"1 / R: {_ISSUE.format('nccl-tests', 380)}",
    ),
    Signature(
        "no-pfc",
        "drops: wrong priority, or a hop without PFC",
        lambda _fabric: (0.0, 0.4),
        "discards, out_of_sequence, retransmissions; bytes of each priority",
        f"`0.x GB/s`: {_ISSUE.format('nccl', 378)}",
    ),
    Signature(
        "socket",
        "TCP on the management network",
        _socket,
        "NCCL's lines say NET/Socket; bytes of the management interface",
        f"at most 100 Gb/s and 35 % of the ceiling: {_ISSUE.format('nccl', 465)}",
    ),
)


def likely_causes(fabric: Fabric, measured_gb_s: float) -> tuple[Cause, ...]:
    """Return the causes whose range holds the measurement, the narrowest range first."""
    top = ceiling.ring_gb_s(fabric)
    ratio = measured_gb_s / top
    fitting = []
    for item in SIGNATURES:
        low, high = item.left(fabric)
        if fabric.rails == 1 and item.id in {"rail-missing", "one-rail"}:
            continue
        if low - 1e-9 <= ratio <= high + 1e-9:
            expected = (low * top, high * top)
            fitting.append(
                Cause(item.id, item.cause, (low, high), expected, item.check, item.source)
            )
    return tuple(
        sorted(fitting, key=lambda cause: cause.expected_ratio[1] - cause.expected_ratio[0])
    )
