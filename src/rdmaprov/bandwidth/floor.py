"""The floor of a collective's bus bandwidth, derived from the fabric, and the judgement by it."""

import math
from collections.abc import Iterator
from dataclasses import replace

from rdmaprov.bandwidth import ceiling, signatures
from rdmaprov.bandwidth.ceiling import algorithm_gb_s, algorithms, max_gb_s, ring_gb_s
from rdmaprov.bandwidth.efficiency import (
    DEFAULT_BYTES,
    busbw_gb_s,
    healthy_gb_s,
    inside_share,
    latency_us,
    network_share,
)
from rdmaprov.bandwidth.fabric import Fabric, FabricError, check_fabric
from rdmaprov.bandwidth.floor_model import Floor, FloorVerdict, Judgement
from rdmaprov.bandwidth.rates import format_gb_s, format_percent, format_size
from rdmaprov.bandwidth.signatures import Cause
from rdmaprov.words import quantity

# NCCL takes what its own model says is fastest (src/graph/tuning.cc). It differs by version, GPU
# and plugin, and RCCL has its own, so all that is not clearly slower may have been taken.
CLEARLY_SLOWER = 0.85
# NCCL's factors for an all-reduce by Tree with Simple, same file.
_SHARE = {"ring": 1.0, "tree": 0.92 * 0.85, "nvlstree": 1.0}


def possible_algorithms(fabric: Fabric, size_bytes: int) -> tuple[str, ...]:
    """Return the algorithms that NCCL could take for a size, without SHARP in the switches.

    Whether the GPUs have NVLink SHARP is not known, so the best is looked for with and without it.
    """
    if fabric.collective != "all_reduce":
        return algorithms(fabric)[:1]
    reduced = () if fabric.gpus_per_node < 2 else ("nvls" if fabric.domains < 2 else "nvlstree",)
    names = ("ring", "tree", *reduced)
    if fabric.domains <= 3 or fabric.nvlink_nodes > 1:
        # The times of twenty racks grow with the size as a ring's do (coreweave/nccl-tests README).
        return names
    times = {name: _estimate_gb_s(fabric, name, size_bytes) for name in names}
    without = max(times["ring"], times["tree"])
    best = {"nvlstree": max(times.values())}
    return tuple(
        name for name, gb_s in times.items() if gb_s >= CLEARLY_SLOWER * best.get(name, without)
    )


def _estimate_gb_s(fabric: Fabric, algorithm: str, size_bytes: int) -> float:
    """Return what NCCL expects of an algorithm, in GB/s."""
    most = algorithm_gb_s(fabric, algorithm) * _SHARE[algorithm]
    return busbw_gb_s(fabric, algorithm, size_bytes, most)


_ROUNDING = 1 + 1e-9
# Our choice: a measurement has some 1 % of noise, so that of a fleet near its ceiling may be above
# it. Wrong units and NVLink between nodes are much further above.
_NOISE = 1.02


def derive(
    fabric: Fabric,
    algorithm: str = "auto",
    site_floor_gb_s: float = 0.0,
    reason: str = "",
    size_bytes: int = DEFAULT_BYTES,
) -> Floor:
    """Return the floor of a fabric.

    Args:
        algorithm: what NCCL took, or NCCL_ALGO; `auto` if neither is known. Then the floor is the
            least of the algorithms that NCCL could take.
        site_floor_gb_s: what the site demands; 0: nothing of its own. More than the derived floor
            counts, less only with a reason.
        reason: why the site demands less.
        size_bytes: of the message.

    Raises:
        FabricError: numbers that no fabric has, or a site's floor above the ceiling.
    """
    check_fabric(fabric)
    if algorithm not in {"auto", *algorithms(fabric)} - {"direct"}:
        what = f"an {fabric.collective} has no floor by {algorithm}"
        raise FabricError(what, "Pass --algorithm auto.")
    top = ring_gb_s(fabric) if algorithm == "auto" else _ceiling(fabric, algorithm)
    if not 0 <= site_floor_gb_s <= max(top, ring_gb_s(fabric)):
        raise FabricError(
            f"a floor must be from 0 to the ceiling ({format_gb_s(top)}), not {site_floor_gb_s:g}",
            "Write the floor as bus bandwidth in GB/s; 1 GB/s is 8 Gb/s.",
        )
    names = possible_algorithms(fabric, size_bytes) if algorithm == "auto" else (algorithm,)
    derived, least = min((healthy_gb_s(fabric, name, size_bytes), name) for name in names)
    made = Floor(
        ceiling_gb_s=top,
        derived_gb_s=derived,
        floor_gb_s=max(derived, site_floor_gb_s),
        most_gb_s=max_gb_s(fabric, algorithm),
        derivation=sentences(fabric, algorithm, least, size_bytes),
        algorithm=algorithm,
        candidates=names,
    )
    return _apply_site(made, site_floor_gb_s, reason)


def _ceiling(fabric: Fabric, algorithm: str) -> float:
    """Return the ceiling of a known algorithm."""
    return ring_gb_s(fabric) if algorithm == "ring" else algorithm_gb_s(fabric, algorithm)


def _apply_site(made: Floor, site_floor_gb_s: float, reason: str) -> Floor:
    """Return the floor with what the site demands."""
    if 0 < site_floor_gb_s < made.derived_gb_s and reason:
        text = f" The site lowers the floor to {format_gb_s(site_floor_gb_s)}: {reason}."
        return replace(
            made, floor_gb_s=site_floor_gb_s, derivation=made.derivation + text, reason=reason
        )
    if site_floor_gb_s > made.derived_gb_s:
        text = f" The site raises the floor to {format_gb_s(site_floor_gb_s)}."
        return replace(made, derivation=made.derivation + text)
    return made


def judge(
    fabric: Fabric,
    floor: Floor,
    measured_gb_s: float | None = None,
    algorithm: str = "",
    size_bytes: int = DEFAULT_BYTES,
) -> Judgement:
    """Return the judgement of a measured bus bandwidth, in GB/s; without one, the floor alone.

    Args:
        floor: what `derive` made of it.
        measured_gb_s: None: not measured.
        algorithm: the floor's own, which counts where it is empty.
        size_bytes: of the message.

    Raises:
        FabricError: the measurement is not a number of GB/s.
    """
    algorithm = algorithm or floor.algorithm
    start = _start(fabric, floor)
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
    verdict = verdict_of(measured_gb_s, floor.floor_gb_s, floor.most_gb_s)
    if verdict is FloorVerdict.IMPOSSIBLE:
        causes = _impossible_causes(fabric, floor, measured_gb_s)
        return Judgement(floor, verdict, sentence, causes)
    if size_bytes < _LEAST_BYTES:
        return Judgement(floor, FloorVerdict.NOT_JUDGED, sentence, notes=(_SMALL,))
    if verdict is FloorVerdict.SLOW and fabric.efa and fabric.rails * fabric.link_gbps < _EFA_GBPS:
        return Judgement(floor, FloorVerdict.NOT_JUDGED, sentence, notes=(_EFA,))
    if verdict is FloorVerdict.SLOW:
        causes = signatures.likely_causes(fabric, measured_gb_s, floor.algorithm)
        return Judgement(floor, verdict, sentence, causes)
    notes = _notes(fabric, floor, measured_gb_s, algorithm)
    if size_bytes < DEFAULT_BYTES:
        notes = (*notes, _WEAKER)
    return Judgement(floor, verdict, sentence, notes=notes)


def verdict_of(measured_gb_s: float, floor_gb_s: float, most_gb_s: float) -> FloorVerdict:
    """Return the verdict on a bus bandwidth, by what is demanded and what the links carry."""
    if measured_gb_s > most_gb_s * _NOISE:
        return FloorVerdict.IMPOSSIBLE
    slow = measured_gb_s * _ROUNDING < floor_gb_s
    return FloorVerdict.SLOW if slow else FloorVerdict.HEALTHY


def _start(fabric: Fabric, floor: Floor) -> str:
    """Return what was judged, and by what."""
    links = f"{fabric.rails} × {fabric.link_gbps:g}G" if fabric.domains > 1 else "inside NVLink"
    if fabric.nodes == 1:
        links = f"{fabric.gpus_per_node} GPUs"
    by = "" if floor.algorithm == "auto" else f" by {floor.algorithm}"
    by = by if fabric.collective == "all_reduce" else f" of {fabric.collective}{by}"
    start = (
        f"{quantity(fabric.nodes, 'node')}, {links}: ceiling{by} "
        f"{format_gb_s(floor.ceiling_gb_s)}, floor {format_gb_s(floor.floor_gb_s)}"
    )
    return start + (f" (lowered: {floor.reason})" if floor.reason else "")


def _impossible_causes(fabric: Fabric, floor: Floor, measured_gb_s: float) -> tuple[Cause, ...]:
    """Return the causes of a number above what the links carry, the likeliest first."""
    least, most, top = floor.derived_gb_s, floor.most_gb_s, floor.ceiling_gb_s
    alone = fabric.intra_node_gb_s or 0.0
    known = (
        (
            "nvlink",
            "NVLink carried it: all ranks on one node, or NVLink between nodes",
            (0.6 * alone, 1.1 * alone),
            "hosts of the ranks; channels P2P/MNNVL; --nvlink-nodes if nodes share NVLink",
            "what one node reaches alone",
        ),
        (
            "gigabits",
            "the number is in Gb/s, not GB/s",
            (4 * least, 8 * most),
            f"an eighth of it, {format_gb_s(measured_gb_s / 8)}, is possible",
            "1 byte is 8 bits; from half of the floor",
        ),
        (
            "more-links",
            "the rails are more, or faster, than stated, or both directions were added",
            (most, 2 * most),
            "ibstat: ports and their rates; --rails, --link-gbps",
            "twice what these rails carry",
        ),
        (
            "not-these-links",
            "not all data went over these rails",
            (most, math.inf),
            "bytes of each rail before and after; --nvlink-nodes if nodes share NVLink",
            "more than these rails carry",
        ),
    )
    return tuple(
        Cause(id_, cause, (low / top, high / top), (low, high), check, source)
        for id_, cause, (low, high), check, source in known
        if low <= measured_gb_s <= high
    )


# Below, latency decides, of which the model is conservative: its floor accepts almost any number.
_LEAST_BYTES = 1 << 30
_SMALL = (
    "A message of less than 1 GiB is not judged: latency decides there, not the links. Measure 8 "
    "GiB: all_reduce_perf -b 1G -e 8G -f 2."
)
_WEAKER = "A smaller message is a weaker test, as its floor is lower: measure 8 GiB, too."
# EFA of 3,200 Gb/s (p5, p5en, p6) is judged like other rails, as published fleets reach the same
# shares. Of less, p4d alone is published, with 0.59 on four nodes (NVIDIA/nccl/issues/527).
_EFA_GBPS = 3200
_EFA = (
    "EFA of less than 3,200 Gb/s is not judged below this floor: too few fleets are published, and "
    "p4d reaches 59 % on four nodes. Compare with the fleet's own history."
)
_TELL = (
    "NCCL's TUNING lines name it; pairs and groups of nodes, a run with NCCL_ALGO=Ring and the "
    "rails' counters show what this number cannot"
)


def _notes(fabric: Fabric, floor: Floor, measured_gb_s: float, algorithm: str) -> tuple[str, ...]:
    """Return what a number at or above the floor does not show."""
    notes: list[str] = []
    if fabric.collective != "all_reduce":
        return ()
    tree, ring = (algorithm_gb_s(fabric, name) for name in ("tree", "ring"))
    if measured_gb_s > floor.most_gb_s:
        most = format_percent(_NOISE - 1)
        notes.append(f"Up to {most} more than the links carry counts as the measurement's error.")
    if len(floor.candidates) > 1:
        notes.append(
            "The algorithm is not known, so the floor is the least of "
            f"{', '.join(floor.candidates)}: {_TELL}."
        )
    if algorithm == "auto" and 1 < fabric.domains < 4 and tree > floor.ceiling_gb_s:
        notes.append(
            f"On {fabric.nodes} nodes NCCL may use a tree, which reaches "
            f"{tree / floor.ceiling_gb_s:.2f} times a ring's bandwidth and can hide a slow rail: "
            "measure with NCCL_ALGO=Ring too."
        )
    elif fabric.domains > 1 and measured_gb_s > max(tree, ring) * _NOISE:
        notes.append(
            "A ring or a tree over these links does not reach this: switches reduced (SHARP, "
            "NVLink SHARP between nodes), or the rails, --gpu or --intra-node are not as stated."
        )
    return tuple(notes)


def sentences(fabric: Fabric, algorithm: str, least: str, size_bytes: int) -> str:
    """Return how the ceiling and the floor follow.

    Args:
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
        most = ceiling.max_gb_s(fabric, algorithm)
        by = "any algorithm" if algorithm == "auto" else algorithm
        why = " (trees or NVLS can send less than a ring)" if "any" in by and most > top else ""
        yield f"With {by}{why}, these links carry at most {format_gb_s(most)}."


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
