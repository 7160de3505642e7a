"""What a curve of the stage `scaling` shows: as a line, as findings, and in results.json."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rdmaprov.bandwidth.rates import format_gb_s, format_percent
from rdmaprov.finding.finding import Finding
from rdmaprov.isolation.scaling import Knee, KneeCause, ScalePoint, ScalingVerdict
from rdmaprov.runs.groups import fold_names
from rdmaprov.words import quantity

# Of the slow sets, a finding names the first ones.
_MOST_SETS = 4
_REMEDIES = {
    KneeCause.LEAVES: "Check the uplinks of the leaves: links that are down, load of each uplink",
    KneeCause.OVERSUBSCRIPTION: "Check the spines and uplinks; if the fabric is built so, write "
    "fabric_oversubscription",
    KneeCause.LATENCY: "Run rdmaprov accept SITE --stages pairs; on these nodes, check the CPU "
    "load and governor",
    KneeCause.UNKNOWN: "Write fabric_leaf of each node if the site has none; then run rdmaprov "
    "accept SITE --stages pairs,groups",
}


def sentence(points: Sequence[ScalePoint], verdict: ScalingVerdict) -> str:
    """Return a curve and its verdict as one line."""
    first, last = points[0], points[-1]
    kept = format_percent(last.gb_s / first.gb_s) if first.gb_s else "nothing"
    said = (
        f"{first.nodes} nodes {format_gb_s(first.gb_s)}, {last.nodes} nodes "
        f"{format_gb_s(last.gb_s)} ({kept})"
    )
    if verdict.is_low:
        return f"{said}; already pairs are below what healthy ones reach, so no knee is judged"
    if verdict.knee is None:
        return f"{said}; no knee"
    return f"{said}; knee at {verdict.knee.nodes} nodes: {verdict.knee.cause}"


def findings(verdict: ScalingVerdict) -> Iterator[Finding]:
    """Yield what a curve shows to be wrong, or leaves open."""
    if verdict.is_low:
        what = "pairs of nodes are below what healthy ones reach"
        yield Finding(
            "scaling.pairs", what, "Run rdmaprov accept SITE --stages host,pairs", proven=False
        )
        return
    if verdict.knee is not None:
        yield _knee_finding(verdict.knee)
    for each in verdict.odd:
        what = (
            f"{' and '.join(each.nodes)} reach {format_gb_s(each.gb_s)} together, less than other "
            "sets of as many nodes; larger sets with them are not judged"
        )
        yield Finding(
            "scaling.pairs",
            what,
            "Run rdmaprov accept SITE --stages pairs",
            proven=False,
            level="pair",
            nodes=each.nodes,
        )


def _knee_finding(knee: Knee) -> Finding:
    """Return the finding of a knee: of the fabric, as a curve says of nodes only that they cross.

    What it rests on is known where two orders of the same nodes differ; else the result is unknown.
    """
    shown = "; ".join(fold_names(each.nodes) for each in knee.sets[:_MOST_SETS])
    where = f"{len(knee.sets)} of {quantity(knee.of, 'set')} ({shown})"
    what = (
        f"the all-reduce has a knee at {knee.nodes} nodes, in {where}: {knee.why}. It rests on: "
        f"{knee.cause}"
    )
    known = knee.cause in (KneeCause.LEAVES, KneeCause.OVERSUBSCRIPTION)
    return Finding("scaling.knee", what, _REMEDIES[knee.cause], proven=known, level="fleet")


def plane_as_data(
    plane: str, points: Sequence[ScalePoint], verdict: ScalingVerdict
) -> dict[str, Any]:
    """Return a curve as results.json has it."""
    knee = verdict.knee
    return {
        "name": plane,
        "points": [
            {
                "nodes": point.nodes,
                "sets": len(point.sets),
                "crosses_leaves": point.crosses,
                "latency_us": round(point.latency_us, 1),
                "busbw_gb_s": round(point.gb_s, 3),
                "least_gb_s": round(point.least_gb_s, 3),
                "in_order_gb_s": round(point.in_order_gb_s, 3),
                "healthy_gb_s": round(point.healthy_gb_s, 3),
                "slow": [fold_names(each.nodes) for each in point.slow_sets()],
            }
            for point in points
        ],
        "knee": knee and {"nodes": knee.nodes, "cause": knee.cause.value, "why": knee.why},
    }
