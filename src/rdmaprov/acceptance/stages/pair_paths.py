"""The stage `pairs` over RDMA itself: single paths by perftest, before any collective.

Paths from GPU memory to GPU memory are judged by the same paths between host memories.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from rdmaprov.acceptance.paths.ceilings import BANDWIDTH_BYTES, SiteCeilings, site_ceilings
from rdmaprov.acceptance.paths.pci import Port
from rdmaprov.acceptance.paths.plan import PathOptions, PathPlan, plan_paths
from rdmaprov.acceptance.paths.survey import SOFTWARE_BYTES, NodeSurvey
from rdmaprov.acceptance.stage_report import StageNumber, StageReport
from rdmaprov.bandwidth.rates import format_percent
from rdmaprov.boundary import Document
from rdmaprov.finding.finding import Finding
from rdmaprov.inventory import Node
from rdmaprov.isolation import model
from rdmaprov.isolation.model import FaultyPart
from rdmaprov.perftest import errors
from rdmaprov.perftest.expected import GPU_SHARE
from rdmaprov.perftest.locate import good_share
from rdmaprov.perftest.matchings import Matching, all_matchings
from rdmaprov.perftest.matrix import PathKey, PathMatrix, path_of
from rdmaprov.perftest.model import PathMeasurer, PathResult, PathTest
from rdmaprov.perftest.ports import ends
from rdmaprov.words import quantity

# perftest's own size of messages that show the latency of a path.
LATENCY_BYTES = 2
# The rate of Soft-RoCE is what processors have left: on two of them that four virtual machines
# share, good paths differed threefold. A quarter is our choice: it shows what is cut to a fraction.
SOFTWARE_SHARE = 0.25
_SOFTWARE_SAID = (
    "Soft-RoCE: its rate is what the processors have left, so that no floor applies; a path that "
    "is four times slower than good ones is bad."
)
# Under a leaf a good path is as fast as the next one to a tenth; two switches more add a half and
# more (docs/diagnosis.md, wrong-leaf). ClusterKit calls 2.1 times the least bad. Between them, a
# third above good paths of the kind is our choice: 1 / 0.75.
LATENCY_SHARE = 0.75
# The first matchings are under leaves, the next across; three show both, twice under a leaf.
_LATENCY_MATCHINGS = 3
_MOST_UNKNOWN = 16
# Each port with three others, as many as tell a port from its partner.
_MATCHINGS = 3
_REMEDY = (
    "Check GPUDirect RDMA on all nodes: nvidia_peermem or dma-buf, ACS of the bridges above GPU "
    "and NIC (lspci -vv), the IOMMU"
)


@dataclass(frozen=True)
class PathReport:
    """What a stage of paths found, and the counters of nodes after it, if they were read."""

    stage: StageReport
    bandwidth: PathMatrix
    latency: PathMatrix
    expected: str
    counters: dict[str, Document] = field(default_factory=dict)


def run_paths(
    nodes: Sequence[Node], measurer: PathMeasurer, options: PathOptions | None = None
) -> PathReport:
    """Return what tests of single paths show, with what is at fault located."""
    asked = options or PathOptions()
    plan = plan_paths(nodes, asked)
    if asked.is_software:
        ceilings = SiteCeilings(None, 1.0, _SOFTWARE_SAID)
        bandwidth = PathMatrix(plan.leaf_of, share=SOFTWARE_SHARE, mild_share=SOFTWARE_SHARE)
        measurer = OneRailAtATime(measurer)
    else:
        ceilings = site_ceilings(nodes, asked.slots)
        bandwidth = PathMatrix(plan.leaf_of, ceilings.of_path, across=ceilings.across)
    latency = PathMatrix(plan.leaf_of, share=LATENCY_SHARE, measures="latency")
    rounds = plan.few if asked.matchings else all_matchings(plan.names, plan.rails)
    make = partial(_tests, plan.rails, "bandwidth", message_bytes(asked))
    parts = plan.search(measurer, bandwidth, make).run(list(rounds))
    if not asked.is_software:
        make = partial(
            _live_tests, bandwidth, partial(_tests, plan.rails, "latency", LATENCY_BYTES)
        )
        search = plan.search(measurer, latency, make)
        parts = join_parts(parts, search.run(plan.few[:_LATENCY_MATCHINGS]))
    stage = StageReport("pairs", findings=model.findings(parts))
    stage.findings += _unknown_findings(bandwidth)
    stage.said = _said(bandwidth, latency, len(plan.rails), stage.findings)
    if rates := [each.value for own in bandwidth.samples.values() for each in own]:
        stage.numbers.append(StageNumber("slowest path over RDMA", min(rates)))
    return PathReport(stage, bandwidth, latency, ceilings.expected)


def message_bytes(asked: PathOptions) -> int:
    """Return the size of the messages whose bandwidth is measured."""
    return SOFTWARE_BYTES if asked.is_software else BANDWIDTH_BYTES


class OneRailAtATime(PathMeasurer):
    """Runs the tests of one rail after those of another: the rails share their processors."""

    def __init__(self, measurer: PathMeasurer) -> None:
        self._measurer = measurer

    def measure(self, tests: Sequence[PathTest]) -> Mapping[PathTest, PathResult]:
        """Return what came of each test."""
        found: dict[PathTest, PathResult] = {}
        for rail in sorted({test.sender.rail for test in tests}):
            own = [test for test in tests if test.sender.rail == rail]
            found |= self._measurer.measure(own)
        return found


def _tests(
    rails: Sequence[int], measures: str, size: int, matching: Matching
) -> Sequence[PathTest]:
    return matching.tests(rails, measures=measures, size=size)


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
            found.append(replace(part, proven=False, why=why) if follows else part)
    named = {node for part in found if part.kind not in ("leaf", "fleet") for node in part.nodes}
    return (*found, *(part for part in latency if (named - moved).isdisjoint(part.nodes)))


def _unknown_findings(matrix: PathMatrix) -> Iterator[Finding]:
    """Yield the nodes whose paths have no result, as unknown: those in most such paths first."""
    left = {path: why for path, why in matrix.unknown.items() if path not in matrix.samples}
    for _ in range(_MOST_UNKNOWN):
        counts = Counter(node for path in left for node in (path.sender, path.receiver))
        if not counts:
            return
        node, count = counts.most_common(1)[0]
        own = {path: why for path, why in left.items() if node in path[:2]}
        said = ", ".join(_reasons(own, matrix.reasons))
        yield Finding(
            "path.unmeasured",
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
            "path.unmeasured",
            f"{quantity(len(left), 'more path')} have no result",
            "Repair the named faults, then run it again",
            proven=False,
            nodes=nodes,
        )


def _reasons(
    unknown: Mapping[PathKey, str], reasons: Mapping[PathKey, str], most: int = 3
) -> Iterator[str]:
    """Yield why paths have no result, with how many; of those that were not run, what kept them."""
    for word, count in Counter(unknown.values()).most_common(most):
        own = Counter(reasons.get(path, "") for path, why in unknown.items() if why == word)
        reason = own.most_common(1)[0][0] if word == errors.NOT_RUN else ""
        meaning = errors.MEANINGS.get(word, word)
        yield f"{meaning} ({count}{f'; {reason}' if reason else ''})"


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


def add_gpu_paths(
    stage: StageReport,
    host: PathMatrix,
    plan: PathPlan,
    measurer: PathMeasurer,
    memory: Mapping[Port, str],
    way: str,
) -> PathMatrix:
    """Test paths between GPUs, and add what came of them to the stage; return them.

    Args:
        stage: its report; what it names already is not named again.
        way: by which GPU memory is reached, in words.
    """
    gpu = PathMatrix(plan.leaf_of, host.ceiling, across=host.across)

    def make(matching: Matching) -> Sequence[PathTest]:
        tests = matching.tests(plan.rails, size=BANDWIDTH_BYTES, memory=memory)
        ends = (
            (t, (t.sender.node, t.sender.rail), (t.receiver.node, t.receiver.rail)) for t in tests
        )
        return [test for test, *ports in ends if memory.keys() >= set(ports)]

    parts = plan.search(measurer, gpu, make).run(plan.few[:_MATCHINGS])
    known = {node for finding in stage.findings for node in finding.nodes}
    parts = (*_slower_than_host(gpu, host, plan.names), *parts)
    stage.findings += model.findings(
        [part for part in parts if part.kind in ("fleet", "leaf") or known.isdisjoint(part.nodes)]
    )
    stage.notes += _not_verified(gpu)
    if gpu.samples:
        stage.said += f"; {quantity(len(gpu.samples), 'path')} between GPUs by {way}"
        stage.said += "".join(f", {text}" for text in _shares(gpu, host))
    return gpu


def _slower_than_host(
    gpu: PathMatrix, host: PathMatrix, nodes: Sequence[str]
) -> Iterator[FaultyPart]:
    """Yield the fleet if even good paths between GPUs are slow: comparing them shows nothing."""
    for kind, share in _good_shares(gpu, host):
        if share < GPU_SHARE:
            why = (
                f"paths between GPUs, {kind}, reach {format_percent(share)} of what the same paths "
                f"reach between host memories, and must reach {format_percent(GPU_SHARE)}"
            )
            yield FaultyPart("fleet", tuple(nodes), True, why, remedy=_REMEDY)


def _good_shares(gpu: PathMatrix, host: PathMatrix) -> Iterator[tuple[str, float]]:
    for kind in sorted({gpu.kind(path) for path in gpu.samples}):
        good = host.good(kind)[0]
        if good > 0:
            yield kind, gpu.good(kind)[0] / good


def _shares(gpu: PathMatrix, host: PathMatrix) -> Iterator[str]:
    for kind, share in _good_shares(gpu, host):
        yield f"{kind} {format_percent(share)} of host memory"


def _not_verified(gpu: PathMatrix) -> Iterator[str]:
    """Yield a note for each reason for which paths have no result."""
    words = Counter(word for path, word in gpu.unknown.items() if path not in gpu.samples)
    for word, count in words.items():
        why = errors.MEANINGS.get(word, "it reached more than the line carries")
        yield f"{quantity(count, 'path')} between GPUs not verified: {why}"


def gpu_way(surveys: Mapping[str, NodeSurvey]) -> str:
    """Return how perftest reaches GPU memory on these nodes, in words; empty if on none."""
    ways = Counter(
        way
        for survey in surveys.values()
        if (able := survey.abilities.get("ib_write_bw")) and (way := able.gpu_way)
    )
    return " and ".join(sorted(ways))
