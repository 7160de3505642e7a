"""What a curve of the stage `scaling` shows: as a line, as findings, and in results.json."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any

from rdmaprov.acceptance.live.ranks import Group
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks.jobs import node_counts
from rdmaprov.acceptance.stages.groups import chunks
from rdmaprov.bandwidth.rates import format_gb_s, format_percent
from rdmaprov.finding.finding import Finding
from rdmaprov.inventory import Node
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


def counts(nodes: int) -> tuple[int, ...]:
    """Return how many nodes a set has, ascending: powers of two, and all.

    >>> counts(16), counts(12)
    ((2, 4, 8, 16), (2, 4, 8, 12))
    """
    return node_counts(nodes)[1:]


def leaf_of(site: GateSite) -> dict[str, str]:
    """Return the leaf of each node, empty where the site does not say."""
    return {node.name: str(node.get("fabric_leaf") or "") for node in site.nodes}


def by_leaf(site: GateSite) -> GateSite:
    """Return the site with leaf after leaf; its first node stays the first."""
    return replace(site, nodes=tuple(chain.from_iterable(_leaves(site))))


def alternating(site: GateSite) -> GateSite:
    """Return the site with one node of each leaf after the other; its first node stays the first.

    torch sorts the ranks of a group (torch.distributed.new_group), so the order of a session is
    that of each ring in it. Here, as many neighbours as possible are under different leaves.
    """
    turns = chain.from_iterable(zip_longest(*_leaves(site)))
    return replace(site, nodes=tuple(node for node in turns if node is not None))


def _leaves(site: GateSite) -> list[list[Node]]:
    """Return the nodes of each leaf, of those without one two halves, as neighbours are likely."""
    found: dict[str, list[Node]] = {}
    for node in site.nodes:
        found.setdefault(str(node.get("fabric_leaf") or ""), []).append(node)
    if len(found) > 1:
        return list(found.values())
    middle = (len(site.nodes) + 1) // 2
    return [list(site.nodes[:middle]), list(site.nodes[middle:])]


def sets_of(site: GateSite, count: int) -> list[list[Group]]:
    """Return sets of nodes in rounds; those of a round are disjoint. Each node is in one at least.

    A set is under one leaf where all leaves have as many nodes; else it fills leaf after leaf.
    """
    leaves = [[node.name for node in own] for own in _leaves(site)]
    if count > min(map(len, leaves)):
        leaves = [list(chain.from_iterable(leaves))]
    whole = [part for own in leaves for part in chunks(own, count)]
    rest = [tuple(own[-count:]) for own in leaves if len(own) % count]
    return [each for each in (whole, rest) if each]


def spanned(nodes: Group, leaves: Mapping[str, str]) -> int:
    """Return how many leaves some nodes are under; 0 if the site does not say."""
    own = {leaves[name] for name in nodes}
    return 0 if "" in own else len(own)


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
