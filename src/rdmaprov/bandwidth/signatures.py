"""Faults that explain a slow number, each with the share of the ceiling that is left with it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from rdmaprov.bandwidth import ceiling
from rdmaprov.bandwidth.efficiency import MAX_EFFICIENCY, healthy_gb_s
from rdmaprov.bandwidth.fabric import Fabric, Slot

_ISSUE = "github.com/NVIDIA/{}/issues/{}"
# A socket runs over the management network: 100 Gb/s is a fast one.
_MANAGEMENT_GB_S = 100 / 8


# A fabric and an algorithm → lowest and highest share of the ceiling that is left.
Left = Callable[[Fabric, str], tuple[float, float]]


@dataclass(frozen=True)
class Signature:
    """A fault and the share of the ceiling that is left with it."""

    id: str
    cause: str
    # lowest and highest share of the ceiling that is left, for a fabric and an algorithm
    left: Left
    check: str  # what distinguishes it from the others
    source: str  # where the share comes from


@dataclass(frozen=True)
class Cause:
    """A cause that fits a measurement; the shares are of the ceiling."""

    id: str
    cause: str
    expected_ratio: tuple[float, float]
    expected_gb_s: tuple[float, float]
    check: str
    source: str


def _share(factor: Callable[[Fabric], float], efficiency: float = MAX_EFFICIENCY) -> Left:
    """Return the shares that are left by a fault that scales what the rails carry by a factor.

    What a node reaches alone stays, so where that is less than the rails, a fault of them shows
    only as far as it takes them below it. Where the algorithm is not known, a healthy number on
    two and three nodes may be a tree's, above a ring's ceiling.
    """

    def left(fabric: Fabric, algorithm: str) -> tuple[float, float]:
        usual = ceiling.algorithms(fabric)
        usual = ("ring", "tree") if "tree" in usual else usual[:1]
        names = usual if algorithm == "auto" else (algorithm,)
        top = _ceiling(fabric, algorithm)
        scale = factor(fabric)
        low = min(_healthy(fabric, name, scale) for name in names)
        high = max(_most(fabric, name, scale) for name in names) * efficiency
        return low / top, high / top

    return left


def _ceiling(fabric: Fabric, algorithm: str) -> float:
    if algorithm in {"auto", "ring"}:
        return ceiling.ring_gb_s(fabric)
    return ceiling.algorithm_gb_s(fabric, algorithm)


def _healthy(fabric: Fabric, algorithm: str, scale: float) -> float:
    """Return the least that a fleet reaches with so much of its rails, in GB/s."""
    slower = replace(fabric, link_gbps=fabric.link_gbps * scale, gpu_pcie=fabric.gpu_slot)
    return healthy_gb_s(slower, algorithm)


def _most(fabric: Fabric, algorithm: str, scale: float) -> float:
    """Return the most that a fleet reaches with so much of its rails, in GB/s."""
    network = ceiling.network_gb_s(fabric, algorithm) / fabric.oversubscription
    return min(scale * network, ceiling.inside_gb_s(fabric, algorithm))


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


def _rails_instead(fabric: Fabric, _algorithm: str) -> tuple[float, float]:
    """Return what the rails give where NVLink should: from one rail's floor to all of them."""
    if fabric.nodes < 2:
        return 0.0, 0.0
    rails = replace(fabric, nvlink_nodes=1)
    top = ceiling.ring_gb_s(fabric)
    most = max(ceiling.algorithm_gb_s(rails, name) for name in ("ring", "tree"))
    return healthy_gb_s(replace(rails, rails=1), "ring") / top, MAX_EFFICIENCY * most / top


def _socket(fabric: Fabric, algorithm: str) -> tuple[float, float]:
    return 0.0, min(0.35, _MANAGEMENT_GB_S / _ceiling(fabric, algorithm))


# RoCE v2 around a packet: Ethernet with FCS, preamble and gap 38, IPv4 20, UDP 8, BTH 12, ICRC 4.
_AROUND = 82
SIGNATURES = (
    Signature(
        "mtu-1500",
        "Ethernet MTU 1500, so RDMA sends packets of 1024 bytes",
        _share(lambda _fabric: (1024 / (1024 + _AROUND)) / (4096 / (4096 + _AROUND))),
        "ibv_devinfo: active_mtu 1024; ip link: mtu 1500, also on the switches; role mtu",
        "1024 of 1106 bytes are data, against 4096 of 4178: "
        "github.com/NVIDIA/dgx-spark-playbooks/issues/25",
    ),
    Signature(
        "half-rate",
        "ports run at half their rate, or one of two ports or planes carries all",
        _share(lambda _fabric: 0.5),
        "ibstat: rate; NCCL's line `NET/IB : Using` names all planes; NCCL_IB_HCA",
        "1 / 2: github.com/NVIDIA/dgx-spark-playbooks/issues/102",
    ),
    Signature(
        "quarter-rate",
        "one of four planes carries all, such as a VF of 200G on a port of 800G",
        _share(lambda _fabric: 0.25, 1.02),  # 177 of 175 by a tree was measured
        "rdma link; NCCL's line `NET/IB : Using` names all planes; NCCL_IB_HCA",
        "1 / 4: four planes of a port",
    ),
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
        lambda _fabric, _algorithm: (0.39, 0.5),
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
        lambda _fabric, _algorithm: (0.05, 0.76),
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
        lambda _fabric, _algorithm: (0.0, 0.4),
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


# Inside one NVLink domain; the shares are of what NVLink reaches.
NVLINK = (
    Signature(
        "rails-instead",
        "NVLink between nodes is not used: the data goes over the rails",
        _rails_instead,
        "NCCL's channels say NET, not P2P/MNNVL; nvidia-imex-ctl -N, NCCL_MNNVL_ENABLE, and one "
        "CliqueId in nvidia-smi -q",
        "one rail to all rails; 85 instead of 811: "
        "www.lixueduan.com/posts/ai/13-gb200-mnnvl-nccl-test",
    ),
    Signature(
        "pcie-instead",
        "NVLink is not used: the data goes over PCIe or the CPU's memory",
        lambda fabric, _algorithm: (0.0, fabric.gpu_slot.gb_s / ceiling.ring_gb_s(fabric)),
        "NCCL's channels say SHM or P2P/IPC; nvidia-smi topo -m, nvidia-smi nvlink -s",
        "at most the slot of a GPU",
    ),
    Signature(
        "nvlink-part",
        "some links of NVLink are down, or a GPU is slow",
        lambda _fabric, _algorithm: (0.05, 0.95),
        "nvidia-smi nvlink -s; nvidia-smi -q: Fabric Health; clocks of each GPU",
        "whatever its links leave to the slowest GPU",
    ),
)


def likely_causes(
    fabric: Fabric, measured_gb_s: float, algorithm: str = "auto"
) -> tuple[Cause, ...]:
    """Return the causes whose range holds the measurement, the narrowest range first.

    Inside one NVLink domain no rail is used, so others explain a number, in their table's order.
    """
    top = _ceiling(fabric, algorithm)
    ratio = measured_gb_s / top
    fitting = []
    for item in SIGNATURES if fabric.domains > 1 else NVLINK:
        if fabric.rails == 1 and item.id in {"rail-missing", "one-rail"}:
            continue
        low, high = item.left(fabric, algorithm)
        if low - 1e-9 <= ratio <= high + 1e-9:
            expected = (low * top, high * top)
            fitting.append(
                Cause(item.id, item.cause, (low, high), expected, item.check, item.source)
            )
    if fabric.domains > 1:
        fitting.sort(key=lambda cause: cause.expected_ratio[1] - cause.expected_ratio[0])
    return tuple(fitting)
