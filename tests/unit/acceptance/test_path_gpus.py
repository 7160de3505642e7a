"""Paths between GPUs, from each rail to the others, and the priority of their traffic."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from tests.madeup.faults import kinds
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.paths import MadeUpPaths
from tests.madeup.shape import FleetShape
from tests.madeup.site import site_nodes

from rdmaprov.acceptance.paths.plan import PathOptions, plan_paths
from rdmaprov.acceptance.paths.survey import NodeSurvey
from rdmaprov.acceptance.stage_report import StageReport
from rdmaprov.acceptance.stages.pair_paths import add_gpu_paths, gpu_way, run_paths
from rdmaprov.acceptance.stages.pairs import add_cross_rail_paths, judge_priorities
from rdmaprov.perftest.matrix import PathMatrix
from rdmaprov.perftest.model import PathResult, PathTest
from rdmaprov.perftest.tool.options import Abilities

SHAPE = FleetShape(8, gpus=2, rails=2, per_leaf=2)
NODES = site_nodes(SHAPE)
NEAR = {(node.name, rail): f"gpu{rail}" for node in NODES for rail in (0, 1)}
KINDS = {kind.name: kind for kind in kinds(held_out=True)}


class Changed:
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
    stage, _ = run(MadeUpPaths(MadeUpFleet(SHAPE, KINDS["half-slot"])))
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
    options = (Abilities(cuda, uses_dmabuf=True), Abilities(cuda), Abilities())
    surveys = [NodeSurvey("a", {"ib_write_bw": each}) for each in options]
    assert [gpu_way({"n": each}) for each in surveys] == ["dma-buf", "peer memory", ""]
    assert gpu_way(dict(zip("abc", surveys, strict=True))) == "dma-buf and peer memory"


class Recorded:
    def __init__(self, measurer, broken: bool = False) -> None:
        self.measurer, self.broken = measurer, broken
        self.ways: set[tuple[int, int]] = set()

    def measure(self, tests: Sequence[PathTest]) -> Mapping[PathTest, PathResult]:
        self.ways |= {(test.sender.rail, test.receiver.rail) for test in tests}
        found: Mapping[PathTest, PathResult] = self.measurer.measure(tests)
        if self.broken:
            return {test: PathResult(test, error="no-path") for test in tests}
        return found


def run_cross(name="", rails=4, broken=False, known=()):
    shape = FleetShape(8, gpus=4, rails=rails, per_leaf=4)
    fleet = MadeUpFleet(shape, KINDS.get(name))
    measurer = Recorded(MadeUpPaths(fleet), broken)
    plan = plan_paths(site_nodes(shape), PathOptions())
    stage = StageReport("pairs", "paths", findings=list(known))
    add_cross_rail_paths(stage, PathMatrix(plan.leaf_of), plan, measurer, 1 << 20)
    return fleet, stage, measurer.ways


def test_each_rail_meets_each_other_one():
    _, stage, ways = run_cross()
    assert ways == {(one, other) for one in range(4) for other in range(4) if one != other}
    assert (stage.state, stage.notes) == ("passed", [])
    assert stage.said == "paths; 96 paths between rails"


def test_two_rails_meet_in_three_rounds():
    _, stage, ways = run_cross(rails=2)
    assert ways == {(0, 1), (1, 0)}
    assert stage.said == "paths; 48 paths between rails"


def test_a_rail_that_is_slow_is_named():
    fleet, stage, _ = run_cross("half-slot")
    [truth] = fleet.truths
    named = [(each.level, each.nodes, each.rail) for each in stage.findings]
    assert named == [("rail", (fleet.shape.names[truth.nodes[0]],), truth.rail)]


def test_rails_that_are_separate_networks_are_no_fault():
    _, stage, _ = run_cross(broken=True)
    assert stage.findings == []
    (note,) = stage.notes
    assert note.endswith(
        " paths from one rail to another carry nothing: the rails are separate networks"
    )


def test_a_fleet_of_one_rail_has_none():
    _, stage, ways = run_cross(rails=1)
    assert ways == set()
    assert stage.notes == ["paths between rails: there is one rail"]


FOUR = site_nodes(FleetShape(4, gpus=2, rails=2, per_leaf=2))
NAMES = [node.name for node in FOUR]
GB = 10**9


def read(counts, seconds=0.0):
    rails = [{"counters": {f"ethtool.{name}": n for name, n in own.items()}} for own in counts]
    return {"time": seconds, "rails": rails, "others": {}}


def judged(changes=None, kinds=("tx_prio{}_bytes", "rx_prio{}_bytes")):
    before, after = {}, {}
    for name in NAMES:
        names = [kind.format(number) for kind in kinds for number in (0, 3)]
        own = [dict.fromkeys(names, 5) for _ in range(2)]
        before[name] = read(own)
        grown = [{**each, **{n: 5 + GB for n in names if "prio3" in n}} for each in own]
        for (node, rail), more in (changes or {}).items():
            if node == name:
                grown[rail].update(more)
        after[name] = read(grown, 9.0)
    return judge_priorities(FOUR, before, after)


def test_traffic_of_the_right_priority_is_silent():
    assert judged() == ([], [])


def test_a_sender_of_another_priority_is_named_and_its_receivers_are_not():
    wrong = {"tx_prio0_bytes": GB, "tx_prio3_bytes": 5}
    half = {"rx_prio0_bytes": GB, "rx_prio3_bytes": GB}
    findings, _ = judged({(NAMES[1], 1): wrong, (NAMES[0], 1): half, (NAMES[2], 1): half})
    assert [(each.node, each.rail, each.proven) for each in findings] == [(NAMES[1], 1, True)]
    assert "0 % of the bytes had priority 3" in findings[0].what


def test_a_receiver_is_named_where_all_senders_are_right():
    findings, _ = judged({(NAMES[2], 0): {"rx_prio0_bytes": GB, "rx_prio3_bytes": 5}})
    assert [(each.node, each.rail, each.proven) for each in findings] == [(NAMES[2], 0, True)]
    assert "0 % of the bytes that it received had priority 3" in findings[0].what
    assert "all senders sent 3" in findings[0].what


def test_a_few_bytes_of_others_are_no_evidence():
    assert judged({(NAMES[2], 0): {"rx_prio0_bytes": 1 << 20, "rx_prio3_bytes": 5}})[0] == []


@pytest.mark.parametrize("kinds", [(), ("rx_prio{}_bytes",)])
def test_rails_without_counters_are_not_verified(kinds):
    findings, notes = judged(kinds=kinds)
    assert findings == []
    assert notes == [
        "priority of the paths of 8 rails not verified: the driver has no tx_prioN_bytes "
        "(ethtool -S)"
    ]


def test_a_node_that_does_not_answer_afterwards_is_left_out():
    before = {name: read([{"tx_prio3_bytes": 0}] * 2) for name in NAMES}
    assert judge_priorities(FOUR, before, {}) == ([], [])
