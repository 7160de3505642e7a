"""Paths between GPUs, on made-up fleets: a node, the whole fleet, and a perftest without CUDA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.madeup.faults import kinds
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.paths import MadeUpPaths
from tests.madeup.shape import FleetShape
from tests.madeup.site import site_nodes

from rdmaprov.acceptance.paths.plan import PathOptions, plan_paths
from rdmaprov.acceptance.paths.survey import NodeSurvey
from rdmaprov.acceptance.stages.pair_paths import add_gpu_paths, gpu_way, run_paths
from rdmaprov.perftest.model import PathResult, PathTest
from rdmaprov.perftest.tool.options import Abilities

SHAPE = FleetShape(8, gpus=2, rails=2, per_leaf=2)
NODES = site_nodes(SHAPE)
NEAR = {(node.name, rail): f"gpu{rail}" for node in NODES for rail in (0, 1)}
KINDS = {kind.name: kind for kind in kinds(held_out=True)}


class Changed:
    """A made-up fleet in which tests from GPU memory end otherwise."""

    def __init__(self, share: float = 1.0, error: str = "") -> None:
        self.paths, self.share, self.error = MadeUpPaths(MadeUpFleet(SHAPE)), share, error

    def measure(self, tests: Sequence[PathTest]) -> Mapping[PathTest, PathResult]:
        found = dict(self.paths.measure(tests))
        for test, result in found.items():
            if test.sender.memory.startswith("gpu"):
                found[test] = replace(result, gb_s=self.share * result.gb_s)
                if self.error:
                    found[test] = PathResult(test, error=self.error)
        return found


def run(measurer, near=None):
    asked = PathOptions()
    report = run_paths(NODES, measurer, asked)
    plan = plan_paths(NODES, asked)
    gpu = add_gpu_paths(
        report.stage, report.bandwidth, plan, measurer, NEAR if near is None else near, "dma-buf"
    )
    return report.stage, gpu


def test_a_healthy_fleet_says_its_share_of_host_memory():
    stage, gpu = run(Changed(0.97))
    assert (stage.state, stage.notes) == ("passed", [])
    assert len(gpu.samples) == 2 * 2 * 4 * 3
    assert "; 48 paths between GPUs by dma-buf, across leaves 97 % of host memory" in stage.said


def test_a_node_without_gpudirect_is_named_and_only_once():
    fleet = MadeUpFleet(SHAPE, KINDS["no-gdr"])
    stage, _ = run(MadeUpPaths(fleet))
    [truth] = fleet.truths
    assert [(each.level, each.nodes) for each in stage.findings] == [
        ("node", (fleet.shape.names[truth.nodes[0]],))
    ]


def test_a_rail_that_host_memory_shows_is_not_named_again():
    fleet = MadeUpFleet(SHAPE, KINDS["half-slot"])
    stage, _ = run(MadeUpPaths(fleet))
    assert [each.level for each in stage.findings] == ["rail"]


def test_a_fleet_without_gpudirect_is_the_fleet_and_no_node():
    stage, _ = run(Changed(0.45))
    assert {(each.level, each.proven) for each in stage.findings} == {("fleet", True)}
    assert "45 % of what the same paths reach between host memories" in stage.findings[0].what
    assert "nvidia_peermem or dma-buf" in stage.findings[0].remedy


def test_a_perftest_without_cuda_is_not_verified():
    stage, gpu = run(Changed(error="no-gpu-memory"))
    assert (stage.findings, gpu.samples) == ([], {})
    assert stage.notes == ["48 paths between GPUs not verified: GPU memory could not be tested"]
    assert "GPUs" not in stage.said


def test_only_ends_with_a_near_gpu_are_tested():
    near = {port: memory for port, memory in NEAR.items() if port[1] == 1}
    _, gpu = run(Changed(), near)
    assert {(path.rail, path.into) for path in gpu.samples} == {(1, 1)}


def test_the_way_to_gpu_memory_is_what_perftest_can_do():
    cuda = frozenset({"--use_cuda", "--use_cuda_dmabuf"})
    options = (
        Abilities("6", cuda, uses_dmabuf=True),
        Abilities("6", cuda),
        Abilities("6", frozenset()),
    )
    surveys = [NodeSurvey("a", {"ib_write_bw": each}) for each in options]
    assert [gpu_way({"n": each}) for each in surveys] == ["dma-buf", "peer memory", ""]
    assert gpu_way(dict(zip("abc", surveys, strict=True))) == "dma-buf and peer memory"
