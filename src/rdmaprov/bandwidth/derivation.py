"""How a floor follows from its fabric, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rdmaprov.bandwidth import ceiling
from rdmaprov.bandwidth.efficiency import inside_share, latency_us, network_share
from rdmaprov.bandwidth.fabric import Fabric
from rdmaprov.bandwidth.rates import format_gb_s, format_percent
from rdmaprov.bandwidth.sizes import format_size
from rdmaprov.words import quantity


def sentences(fabric: Fabric, algorithm: str, least: str, size_bytes: int) -> str:
    """Return how the ceiling and the floor follow.

    Args:
        fabric: what the all-reduce runs over.
        algorithm: what NCCL took; `auto` if it is not known.
        least: the algorithm that the floor is of.
        size_bytes: of the message.
    """
    return " ".join(_sentences(fabric, algorithm, least, size_bytes))


def _sentences(fabric: Fabric, algorithm: str, least: str, size_bytes: int) -> Iterator[str]:
    top = ceiling.ring_gb_s(fabric)
    if fabric.domains > 1:
        whose = "A ring's ceiling is"
        if fabric.collective == "alltoall":
            away = 1 - 1 / fabric.domains
            whose = f"{format_percent(away)} of each GPU's data leaves its node; an alltoall's "
            whose += f"ceiling is (1 - 1/{fabric.ranks}) ÷ {fabric.gpus_per_node} ÷ that, of"
        yield f"{whose} {_rails(fabric)} = {format_gb_s(top)}."
        if fabric.is_guessed:
            yield f"The slot of a GPU is not known; the rails need {fabric.gpu_slot}."
    inside = fabric.intra_node_gb_s
    if inside is not None:
        share = format_percent(inside_share(fabric, least))
        yield (
            f"One node alone reaches {format_gb_s(inside)}, of which a fleet keeps {share} "
            f"by {least}."
        )
    if fabric.domains > 1:
        share = format_percent(network_share(fabric, least))
        yield f"Of the rails, {_fleet(fabric)} uses {share} by {least}."
    lost = latency_us(fabric, least)
    yield f"At {format_size(size_bytes)}, {_milliseconds(lost)} of latency are added."
    if fabric.domains > 1:
        by = "any algorithm" if algorithm == "auto" else algorithm
        most = format_gb_s(ceiling.max_gb_s(fabric, algorithm))
        yield f"With {by}, these links carry at most {most}."


def _rails(fabric: Fabric) -> str:
    """Return what carries the data of a node, and why it is that."""
    rails = quantity(fabric.rails, "rail")
    how = f"{rails} × {fabric.link_gbps:g} Gb/s ÷ 8 bits"
    if fabric.node_gb_s < fabric.rails * fabric.rail_gb_s:
        gpus = quantity(fabric.gpus_per_node, "GPU")
        how = f"{gpus} × {fabric.gpu_slot.gb_s:.1f} GB/s ({fabric.gpu_slot})"
    elif fabric.pcie and fabric.rail_gb_s < fabric.link_gbps / 8:
        how = f"{rails} × {fabric.rail_gb_s:.1f} GB/s ({fabric.pcie}"
        how += f", {quantity(fabric.cards, 'card')})" if fabric.cards else ")"
    inside = ceiling.inside_gb_s(fabric, "ring")
    if fabric.nvlink_nodes > 1 and math.isfinite(inside):
        how = f"{quantity(fabric.nvlink_nodes, 'node')} × {how}"
    if fabric.oversubscription > 1:
        how += f" ÷ {fabric.oversubscription:g} (oversubscription)"
    if math.isclose(ceiling.ring_gb_s(fabric), inside):
        return f"what a node reaches alone, less than {how}"
    return how


def _fleet(fabric: Fabric) -> str:
    if fabric.nvlink_nodes > 1:
        return f"a fleet of {fabric.domains} NVLink domains"
    return f"a healthy fleet of {quantity(fabric.nodes, 'node')}"


def _milliseconds(us: float) -> str:
    return f"{us / 1000:.2g} ms" if us < 10_000 else f"{us / 1000:.0f} ms"
