"""Paths from each rail to the others: good ones, a rail that is slow, and separate networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.madeup.faults import kinds
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.paths import MadeUpPaths
from tests.madeup.shape import FleetShape
from tests.madeup.site import site_nodes

from rdmaprov.acceptance.paths.plan import PathOptions, plan_paths
from rdmaprov.acceptance.stage_report import StageReport
from rdmaprov.acceptance.stages.pairs import add_cross_rail_paths
from rdmaprov.perftest.matrix import PathMatrix
from rdmaprov.perftest.model import PathResult, PathTest

KINDS = {kind.name: kind for kind in kinds(held_out=True)}


class Recorded:
    """Tests of a measurer, and which rails they joined."""

    def __init__(self, measurer, broken: bool = False) -> None:
        self.measurer, self.broken = measurer, broken
        self.ways: set[tuple[int, int]] = set()

    def measure(self, tests: Sequence[PathTest]) -> Mapping[PathTest, PathResult]:
        self.ways |= {(test.sender.rail, test.receiver.rail) for test in tests}
        found: Mapping[PathTest, PathResult] = self.measurer.measure(tests)
        if self.broken:
            return {test: PathResult(test, error="no-path") for test in tests}
        return found


def run(name="", rails=4, broken=False, known=()):
    shape = FleetShape(8, gpus=4, rails=rails, per_leaf=4)
    fleet = MadeUpFleet(shape, KINDS.get(name))
    measurer = Recorded(MadeUpPaths(fleet), broken)
    plan = plan_paths(site_nodes(shape), PathOptions())
    stage = StageReport("pairs", "paths", findings=list(known))
    add_cross_rail_paths(stage, PathMatrix(plan.leaf_of), plan, measurer, 1 << 20)
    return fleet, stage, measurer.ways


def test_each_rail_meets_each_other_one():
    _, stage, ways = run()
    assert ways == {(one, other) for one in range(4) for other in range(4) if one != other}
    assert (stage.state, stage.notes) == ("passed", [])
    assert stage.said == "paths; 96 paths between rails"


def test_two_rails_meet_in_three_rounds():
    _, stage, ways = run(rails=2)
    assert ways == {(0, 1), (1, 0)}
    assert stage.said == "paths; 48 paths between rails"


def test_a_rail_that_is_slow_is_named():
    fleet, stage, _ = run("half-slot")
    [truth] = fleet.truths
    named = [(each.level, each.nodes, each.rail) for each in stage.findings]
    assert named == [("rail", (fleet.shape.names[truth.nodes[0]],), truth.rail)]


def test_rails_that_are_separate_networks_are_no_fault():
    _, stage, _ = run(broken=True)
    assert stage.findings == []
    (note,) = stage.notes
    assert note.endswith(
        " paths from one rail to another carry nothing: the rails are separate networks"
    )


def test_a_fleet_of_one_rail_has_none():
    _, stage, ways = run(rails=1)
    assert ways == set()
    assert stage.notes == ["paths between rails: there is one rail"]
