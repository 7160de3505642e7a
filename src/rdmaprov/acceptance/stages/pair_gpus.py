"""Paths from GPU memory to GPU memory, against the same paths between host memories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rdmaprov.acceptance.live import isolate
from rdmaprov.acceptance.paths.ceilings import BANDWIDTH_BYTES
from rdmaprov.acceptance.paths.pci import Port
from rdmaprov.acceptance.paths.plan import PathPlan
from rdmaprov.acceptance.paths.survey import NodeSurvey
from rdmaprov.acceptance.stage_report import StageReport
from rdmaprov.bandwidth.rates import format_percent
from rdmaprov.isolation.model import FaultyPart
from rdmaprov.perftest import errors
from rdmaprov.perftest.expected import GPU_SHARE
from rdmaprov.perftest.matchings import Matching
from rdmaprov.perftest.matrix import PathMatrix
from rdmaprov.perftest.model import PathMeasurer, PathTest
from rdmaprov.words import quantity

# Each port with three others, as many as tell a port from its partner.
_MATCHINGS = 3
_REMEDY = (
    "Check GPUDirect RDMA on all nodes: nvidia_peermem or dma-buf, ACS of the bridges above GPU "
    "and NIC (lspci -vv), the IOMMU"
)


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
    stage.findings += isolate.findings(
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
