"""The stage `pairs` over RDMA itself: single paths by perftest, before any collective."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from rdmaprov.acceptance import isolate
from rdmaprov.acceptance.finding import Finding
from rdmaprov.acceptance.stages import StageReport
from rdmaprov.inventory import Node
from rdmaprov.isolation.model import FaultyPart
from rdmaprov.verbs.expected import Wire, least_sentence, path_ceiling
from rdmaprov.verbs.locate import PathSearch, good_share
from rdmaprov.verbs.matchings import MATCHINGS, Matching, all_matchings, few_matchings
from rdmaprov.verbs.matrix import PathKey, PathMatrix, path_of
from rdmaprov.verbs.model import PathMeasurer, PathTest
from rdmaprov.verbs.ports import ends
from rdmaprov.words import quantity

# perftest's own sizes: of messages that fill a line, and of those that show its latency.
BANDWIDTH_BYTES, LATENCY_BYTES = 1 << 20, 2
# Under a leaf a good path is as fast as the next one to a tenth; two switches more add a half and
# more (docs/diagnosis.md, wrong-leaf). ClusterKit calls 2.1 times the least bad. Between them, a
# third above good paths of the kind is our choice: 1 / 0.75.
LATENCY_SHARE = 0.75
# The first matchings are under leaves, the next across; three show both, twice under a leaf.
_LATENCY_MATCHINGS = 3
_MOST_UNKNOWN = 16


@dataclass(frozen=True)
class PathOptions:
    """How paths are tested.

    Args:
        matchings: how many, or 0 for all pairs.
        shift: of the receiver's rail against the sender's; 0 for paths that stay on their rail.
        memory: of the ends, by rail; host memory by default.
        seed: of the choice of pairs.

    """

    matchings: int = MATCHINGS
    shift: int = 0
    memory: Mapping[int, str] | None = None
    seed: int = 0


@dataclass(frozen=True)
class PathReport:
    """What a stage of paths found.

    Args:
        stage: its report.
        bandwidth: what was measured.
        latency: the same of latency.
        expected: what a path must reach, and why.

    """

    stage: StageReport
    bandwidth: PathMatrix
    latency: PathMatrix
    expected: str


def run_paths(
    nodes: Sequence[Node], measurer: PathMeasurer, options: PathOptions | None = None
) -> PathReport:
    """Return what tests of single paths show, with what is at fault located.

    Args:
        nodes: two or more that take part, as the site has them.
        measurer: runs the tests.
        options: how.

    """
    asked = options or PathOptions()
    names = [node.name for node in nodes]
    rails = sorted({rail.index for node in nodes for rail in node.compute_rails})
    leaf_of = {node.name: str(node.get("fabric_leaf") or "") for node in nodes}
    few = few_matchings(names, rails, leaf_of, asked.seed, asked.matchings or MATCHINGS)
    rounds = list(few if asked.matchings else all_matchings(names, rails, asked.seed))
    ceiling, across, expected = _ceilings(nodes)
    bandwidth = PathMatrix(leaf_of, ceiling, across=across)
    latency = PathMatrix(leaf_of, share=LATENCY_SHARE)
    make = partial(_tests, rails, asked, "bandwidth", BANDWIDTH_BYTES)
    search = PathSearch(names, rails, measurer, bandwidth, make, asked.seed)
    parts = search.run(rounds)
    make = partial(_live_tests, bandwidth, partial(_tests, rails, asked, "latency", LATENCY_BYTES))
    search = PathSearch(names, rails, measurer, latency, make, asked.seed)
    parts = join_parts(parts, search.run(few[:_LATENCY_MATCHINGS]))
    stage = StageReport("pairs", findings=isolate.findings(parts))
    stage.findings += _unknown_findings(bandwidth)
    stage.said = _said(bandwidth, latency, len(rails), stage.findings)
    return PathReport(stage, bandwidth, latency, expected)


def _tests(
    rails: Sequence[int], asked: PathOptions, measures: str, size: int, matching: Matching
) -> Sequence[PathTest]:
    return matching.tests(
        rails, shift=asked.shift, measures=measures, size=size, memory=asked.memory
    )


def _live_tests(
    bandwidth: PathMatrix, make: Callable[[Matching], Sequence[PathTest]], matching: Matching
) -> Sequence[PathTest]:
    """Return the tests of a matching without ports that are known to carry nothing."""
    alive = {
        port
        for path, samples in bandwidth.samples.items()
        for port in ends(path)
        if any(sample.value for sample in samples)
    }
    return [test for test in make(matching) if alive.issuperset(ends(path_of(test)))]


def join_parts(
    bandwidth: Sequence[FaultyPart], latency: Sequence[FaultyPart]
) -> tuple[FaultyPart, ...]:
    """Return what both kinds of tests show; one cause is named once.

    A node that is far from the nodes of its leaf on most rails is cabled to another one, whose
    uplinks then have one node more to carry: that other leaf is not at fault.
    """
    moved = {node for part in latency if part.kind == "node" for node in part.nodes}
    found = []
    for part in bandwidth:
        if part.kind in ("leaf", "fleet") or moved.isdisjoint(part.nodes):
            # Its uplinks carry one node more than they should: what is slow there follows.
            follows = moved and part.kind in ("leaf", "fleet", "pair")
            why = f"{part.why}; {', '.join(sorted(moved))} may be cabled there"
            found.append(replace(part, confidence="low", why=why) if follows else part)
    named = {node for part in found if part.kind not in ("leaf", "fleet") for node in part.nodes}
    return (*found, *(part for part in latency if (named - moved).isdisjoint(part.nodes)))


def _ceilings(nodes: Sequence[Node]) -> tuple[PathCeilings | None, float, str]:
    """Return what paths carry at most, what paths across leaves have of it, and why."""
    wires: dict[tuple[str, int], Wire] = {}
    over = max((float(node.get("fabric_oversubscription") or 1.0) for node in nodes), default=1.0)
    for node in nodes:
        for rail in node.compute_rails:
            gbps = float(node.link_gbps(rail) or 0)
            kind = str(node.get("fabric_kind") or "roce")
            mtu = int(node.get("mtu_rdma_bytes") or 4096)
            wires[node.name, rail.index] = Wire(gbps, kind, mtu)
    slowest = min(wires.values(), key=lambda wire: wire.link_gbps, default=Wire(0))
    if slowest.link_gbps <= 0:
        return None, 1.0, "The site states no fabric_link_gbps: paths are only compared."
    alone = path_ceiling(slowest, BANDWIDTH_BYTES)
    crossing = path_ceiling(slowest, BANDWIDTH_BYTES, None, over, 1.0)
    expected = least_sentence(crossing if over > 1 else alone)
    return PathCeilings(wires), crossing.gb_s / alone.gb_s, expected


class PathCeilings:
    """What each path carries at most: the slower of its two ports."""

    def __init__(self, wires: Mapping[tuple[str, int], Wire]) -> None:
        rates = {wire: path_ceiling(wire, BANDWIDTH_BYTES).gb_s for wire in set(wires.values())}
        self._gb_s = {port: rates[wire] for port, wire in wires.items()}

    def __call__(self, path: PathKey) -> float:
        """Return the ceiling of a path, GB/s."""
        ports = (path.sender, path.rail), (path.receiver, path.into)
        return min(self._gb_s.get(port, math.inf) for port in ports)


def _unknown_findings(matrix: PathMatrix) -> Iterator[Finding]:
    """Yield the nodes whose paths have no result, as unknown: those in most such paths first."""
    left = {path: why for path, why in matrix.unknown.items() if path not in matrix.samples}
    for _ in range(_MOST_UNKNOWN):
        counts = Counter(node for path in left for node in (path.sender, path.receiver))
        if not counts:
            return
        node, count = counts.most_common(1)[0]
        words = Counter(why for path, why in left.items() if node in path[:2])
        said = ", ".join(f"{word} ({many})" for word, many in words.most_common(3))
        yield Finding(
            f"{quantity(count, 'path')} of it have no result: {said}",
            f"On {node}, run ib_write_bw by hand as logs/ has it",
            node,
            proven=False,
            level="node",
        )
        left = {path: why for path, why in left.items() if node not in path[:2]}
    if left:
        nodes = tuple({node: None for path in left for node in path[:2]})
        yield Finding(
            f"{quantity(len(left), 'more path')} have no result",
            "Repair what is named, then run it again",
            proven=False,
            nodes=nodes,
        )


def _said(
    bandwidth: PathMatrix, latency: PathMatrix, rails: int, findings: Sequence[Finding]
) -> str:
    count = good_share(bandwidth)
    rounds = bandwidth.rounds + latency.rounds
    paths = sum(count.values())
    said = f"{quantity(rounds, 'round')} of paths on {quantity(rails, 'rail')}: "
    said += f"{quantity(paths, 'path')}, {count['good']:,} good, {count['bad']:,} bad"
    said += f", {count['unknown']:,} unknown" if count["unknown"] else ""
    named = islice(dict.fromkeys(each.text[:120] for each in findings), 3)
    return said + "".join(f"; {text}" for text in named)
