"""The floor of an all-reduce's bus bandwidth, derived from the fabric, and the judgement by it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from rdmaprov.bandwidth import ceiling, signatures
from rdmaprov.bandwidth.efficiency import efficiency, fleet_sizes
from rdmaprov.bandwidth.fabric import Fabric, FabricError, check_fabric
from rdmaprov.bandwidth.rates import format_gb_s
from rdmaprov.bandwidth.signatures import Cause
from rdmaprov.words import quantity

_ROUNDING = 1 + 1e-9


class FloorVerdict(StrEnum):
    """The verdict on a measurement."""

    HEALTHY = "healthy"
    SLOW = "slow"
    IMPOSSIBLE = "impossible"  # more than the links carry


@dataclass(frozen=True)
class Floor:
    """What a fabric must and can reach, in GB/s of bus bandwidth.

    Args:
        ceiling_gb_s: what a ring reaches at most.
        derived_gb_s: what a healthy fleet of this size reaches.
        floor_gb_s: what is demanded: the derived floor, or that of the site.
        most_gb_s: what the links carry at most, by the algorithm or by any.
        derivation: how these follow from the fabric, in sentences.
        reason: why the site demands less; empty if it does not.

    """

    ceiling_gb_s: float
    derived_gb_s: float
    floor_gb_s: float
    most_gb_s: float
    derivation: str
    reason: str = ""


@dataclass(frozen=True)
class Judgement:
    """A floor, a measurement, and the verdict on it.

    Args:
        floor: what was demanded.
        verdict: None without a measurement.
        sentence: all of it in one line.
        likely_causes: what explains the number, the sharpest first; none if it is healthy.
        notes: what the number alone does not show.

    """

    floor: Floor
    verdict: FloorVerdict | None
    sentence: str
    likely_causes: tuple[Cause, ...] = ()
    notes: tuple[str, ...] = ()


def format_percent(share: float) -> str:
    """Return a share as it is shown, such as `72 %`."""
    return f"{100 * share:.0f} %"


def derive(
    fabric: Fabric,
    algorithm: str = "auto",
    site_floor_gb_s: float = 0.0,
    reason: str = "",
) -> Floor:
    """Return the floor of a fabric.

    Args:
        fabric: what the all-reduce runs over.
        algorithm: NCCL_ALGO; `auto` if it is not set.
        site_floor_gb_s: what the site demands; 0: nothing of its own. More than the derived floor
            counts, less only with a reason.
        reason: why the site demands less.

    Raises:
        FabricError: numbers that no fabric has, or a site's floor above the ceiling.

    """
    check_fabric(fabric)
    top = ceiling.ring_gb_s(fabric)
    if not 0 <= site_floor_gb_s <= top:
        raise FabricError(
            f"a floor must be from 0 to the ceiling ({format_gb_s(top)}), not {site_floor_gb_s:g}",
            "Write the floor as bus bandwidth in GB/s; 1 GB/s is 8 Gb/s.",
        )
    derived = top * efficiency(fabric)
    most = ceiling.max_gb_s(fabric, algorithm)
    text = _derivation(fabric, top, most, algorithm)
    if 0 < site_floor_gb_s < derived and reason:
        text += f" The site lowers the floor to {format_gb_s(site_floor_gb_s)}: {reason}."
        return Floor(top, derived, site_floor_gb_s, most, text, reason)
    if site_floor_gb_s > derived:
        text += f" The site raises the floor to {format_gb_s(site_floor_gb_s)}."
    return Floor(top, derived, max(derived, site_floor_gb_s), most, text)


def _derivation(fabric: Fabric, top: float, most: float, algorithm: str) -> str:
    rails = quantity(fabric.rails, "rail")
    how = f"{rails} × {fabric.link_gbps:g} Gb/s ÷ 8 bits"
    if fabric.node_gb_s < fabric.rails * fabric.rail_gb_s:
        gpus = quantity(fabric.gpus_per_node, "GPU")
        how = f"{gpus} × {fabric.gpu_slot.gb_s:.1f} GB/s ({fabric.gpu_slot})"
    elif fabric.pcie and fabric.rail_gb_s < fabric.link_gbps / 8:
        how = f"{rails} × {fabric.rail_gb_s:.1f} GB/s ({fabric.pcie})"
    if fabric.oversubscription > 1:
        how += f" ÷ {fabric.oversubscription:g} (oversubscription)"
    by = "any algorithm" if algorithm == "auto" else algorithm
    return (
        f"A ring's ceiling is {how} = {format_gb_s(top)}. "
        f"The floor is {format_percent(efficiency(fabric))} of it, for {fleet_sizes(fabric)}. "
        f"With {by}, these links carry at most {format_gb_s(most)}."
    )


def judge(
    fabric: Fabric, floor: Floor, measured_gb_s: float | None = None, algorithm: str = "auto"
) -> Judgement:
    """Return the judgement of a measured bus bandwidth, in GB/s; without one, the floor alone.

    Raises:
        FabricError: the measurement is not a number of GB/s.

    """
    start = (
        f"{fabric.nodes} nodes, {fabric.rails} × {fabric.link_gbps:g}G: "
        f"ceiling {format_gb_s(floor.ceiling_gb_s)}, floor {format_gb_s(floor.floor_gb_s)}"
    )
    start += f" (lowered: {floor.reason})" if floor.reason else ""
    if measured_gb_s is None:
        return Judgement(floor, None, start)
    if not 0 <= measured_gb_s < math.inf:
        raise FabricError(
            f"--measured {measured_gb_s:g} is not a bandwidth",
            "Pass the bus bandwidth in GB/s, as nccl-tests prints it.",
        )
    share = measured_gb_s / floor.ceiling_gb_s
    sentence = (
        f"{start}, measured {format_gb_s(measured_gb_s)} ({format_percent(share)} of the ceiling)"
    )
    if measured_gb_s > floor.most_gb_s * _ROUNDING:
        return Judgement(
            floor,
            FloorVerdict.IMPOSSIBLE,
            sentence,
            _impossible_causes(fabric, floor, measured_gb_s),
        )
    if measured_gb_s * _ROUNDING < floor.floor_gb_s:
        causes = signatures.likely_causes(fabric, measured_gb_s)
        return Judgement(floor, FloorVerdict.SLOW, sentence, causes)
    notes = _notes(fabric, floor, measured_gb_s, algorithm)
    return Judgement(floor, FloorVerdict.HEALTHY, sentence, notes=notes)


def _impossible_causes(fabric: Fabric, floor: Floor, measured_gb_s: float) -> tuple[Cause, ...]:
    """Return the causes of a number above what the links carry."""
    causes = []
    if floor.derived_gb_s / 2 <= measured_gb_s / 8 <= floor.most_gb_s:
        causes.append(
            Cause(
                "gigabits",
                "the number is in Gb/s, not GB/s",
                (8 * efficiency(fabric), 8 * floor.most_gb_s / floor.ceiling_gb_s),
                (8 * floor.derived_gb_s, 8 * floor.most_gb_s),
                f"an eighth of it, {format_gb_s(measured_gb_s / 8)}, is possible",
                "1 byte is 8 bits",
            )
        )
    causes.append(
        Cause(
            "not-these-links",
            "not all data went over these rails: NVLink between nodes, or all ranks on one node",
            (floor.most_gb_s / floor.ceiling_gb_s, math.inf),
            (floor.most_gb_s, math.inf),
            "bytes of each rail before and after; --nvlink-nodes if nodes share NVLink",
            "more than these rails carry",
        )
    )
    return tuple(causes)


def _notes(fabric: Fabric, floor: Floor, measured_gb_s: float, algorithm: str) -> tuple[str, ...]:
    """Return what a number at or above the floor does not show."""
    notes = []
    tree = ceiling.max_gb_s(fabric, "tree")
    if algorithm == "auto" and fabric.domains < 4 and tree > floor.ceiling_gb_s:
        notes.append(
            f"On {fabric.nodes} nodes NCCL may use a tree, which reaches "
            f"{tree / floor.ceiling_gb_s:.2f} times a ring's bandwidth and can hide a slow rail: "
            "measure with NCCL_ALGO=Ring too."
        )
    elif measured_gb_s > max(tree, ceiling.max_gb_s(fabric, "ring")) * _ROUNDING:
        notes.append("Only reduction in the switches (SHARP) reaches this over these rails.")
    return tuple(notes)
