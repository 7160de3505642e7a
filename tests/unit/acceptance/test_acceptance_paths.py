"""The stage of paths, on made-up fleets: what it names, and what it leaves unknown."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pytest
from bench.paths import main
from click.testing import CliRunner
from tests.madeup.faults import kinds
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.paths import SHOWN, MadeUpPaths
from tests.madeup.shape import FleetShape
from tests.madeup.site import site_nodes

from rdmaprov.acceptance.paths.plan import PathOptions
from rdmaprov.acceptance.stages.pair_paths import join_parts, run_paths
from rdmaprov.isolation.model import FaultyPart
from rdmaprov.perftest.matchings import few_matchings
from rdmaprov.perftest.model import End, PathResult, PathTest

SHAPE = FleetShape(8, gpus=2, rails=2, per_leaf=2)
KINDS = {kind.name: kind for kind in kinds(held_out=True)}


def run(name="", seed=0, shape=SHAPE, **options):
    fleet = MadeUpFleet(shape, KINDS.get(name), seed)
    report = run_paths(site_nodes(shape), MadeUpPaths(fleet), PathOptions(**options))
    return fleet, report


def test_a_healthy_fleet_passes_and_says_what_was_measured():
    fleet, report = run()
    assert (report.stage.state, report.stage.findings) == ("passed", [])
    assert report.stage.said == "9 rounds of paths on 2 rails: 96 paths, 96 good, 0 bad"
    assert fleet.seconds == 6 * 8 + 3 * 4
    assert "must reach 90 % of it, 44.1 GB/s" in report.expected


@pytest.mark.parametrize("name", ["half-slot", "slow-rail", "rail-down", "rail-dies", "lossy-rail"])
def test_a_bad_rail_is_named(name):
    fleet, report = run(name)
    [truth] = fleet.truths
    named = [(each.level, each.nodes, each.rail) for each in report.stage.findings]
    assert named == [("rail", (fleet.shape.names[truth.nodes[0]],), truth.rail)]
    assert report.stage.state == "failed"


def test_a_node_cabled_to_another_leaf_is_named_by_its_latency():
    fleet, report = run("wrong-leaf", shape=FleetShape(16, gpus=2, rails=2, per_leaf=4))
    proven = [(each.level, each.nodes) for each in report.stage.findings if each.proven]
    assert proven == [("node", (fleet.shape.names[fleet.truths[0].nodes[0]],))]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_flows_that_collide_are_the_fabric_and_no_node(seed):
    _, report = run("hash-collisions", seed, FleetShape(32, gpus=2, rails=2, per_leaf=8))
    assert {each.level for each in report.stage.findings} == {"fleet"}


def test_all_pairs_find_a_bad_path_wherever_it_is():
    fleet, report = run("bad-path", matchings=0)
    names = {fleet.shape.names[node] for node in fleet.truths[0].nodes}
    assert [(each.level, set(each.nodes)) for each in report.stage.findings] == [("pair", names)]


class WithoutResults:
    """The tests of one node give no result, all for the same reason."""

    def __init__(self, name: str, error: str, said: str = "") -> None:
        self.name, self.paths = name, MadeUpPaths(MadeUpFleet(SHAPE))
        self.error, self.said = error, said

    def measure(self, tests: Sequence[PathTest]) -> Mapping[PathTest, PathResult]:
        return {
            test: PathResult(test, error=self.error, said=self.said)
            if self.name in (test.sender.node, test.receiver.node)
            else result
            for test, result in self.paths.measure(tests).items()
        }


def test_a_node_without_results_is_unknown_and_never_passed():
    report = run_paths(site_nodes(SHAPE), WithoutResults("gpu003", "no-perftest"))
    [finding] = report.stage.findings
    assert (finding.node, finding.proven, report.stage.state) == ("gpu003", False, "unknown")
    assert finding.what == "24 paths of it have no result: perftest is not installed (24)"


def test_a_node_that_was_lost_is_unknown_with_the_reason():
    lost = "its supervisor is gone: something on the node ended it"
    report = run_paths(site_nodes(SHAPE), WithoutResults("gpu003", "not-run", lost))
    [finding] = report.stage.findings
    assert finding.what == f"24 paths of it have no result: it was not run (24; {lost})"


def test_a_leaf_that_carries_a_strangers_node_is_not_accused():
    leaf = FaultyPart("leaf", ("a", "b"), True, "slow", "l1")
    port = FaultyPart("rail", ("x",), True, "slow", rail=2)
    path = FaultyPart("pair", ("a", "c"), True, "slow", rail=2)
    far = FaultyPart("node", ("x",), True, "far")
    own = FaultyPart("pair", ("a", "x"), True, "slow", rail=2)
    found = join_parts((leaf, port, path, own), (far,))
    assert [(part.kind, part.proven) for part in found] == [
        ("leaf", False),
        ("pair", False),
        ("node", True),
    ]
    assert join_parts((leaf, port), ()) == (leaf, port)


class SoftRoce:
    """Rails whose rate is what the processors have left; some are slow, or carry nothing."""

    def __init__(self, seed: int, slow: Collection[End] = (), dead: Collection[End] = ()) -> None:
        self.chance, self.slow, self.dead = random.Random(seed), slow, dead
        self.asked: list[Sequence[PathTest]] = []

    def measure(self, tests: Sequence[PathTest]) -> Mapping[PathTest, PathResult]:
        self.asked.append(tests)
        return {test: self.one(test) for test in tests}

    def one(self, test: PathTest) -> PathResult:
        if {test.sender, test.receiver} & set(self.dead):
            return PathResult(test, error="completion")
        cut = 0.05 if test.sender in self.slow else 1
        return PathResult(test, gb_s=cut * self.chance.uniform(0.004, 0.012))


def soft_roce(measurer):
    nodes = site_nodes(FleetShape(4, gpus=2, rails=2, per_leaf=2))
    return run_paths(nodes, measurer, PathOptions(is_software=True)).stage


@pytest.mark.parametrize("seed", range(20))
def test_soft_roce_is_compared_loosely(seed):
    stage = soft_roce(SoftRoce(seed))
    assert (stage.state, stage.findings) == ("passed", [])
    assert stage.said == "3 rounds of paths on 2 rails: 24 paths, 24 good, 0 bad"


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("how", ["slow", "dead"])
def test_a_bad_rail_of_soft_roce_is_named(seed, how):
    stage = soft_roce(SoftRoce(seed, **{how: [End("gpu003", 1)]}))
    assert [(each.level, each.node, each.rail, each.proven) for each in stage.findings] == [
        ("rail", "gpu003", 1, True)
    ]


def test_rails_of_soft_roce_are_tested_one_after_the_other_and_without_latency():
    measurer = SoftRoce(0)
    soft_roce(measurer)
    assert len(measurer.asked) == 6
    for tests in measurer.asked:
        assert len({test.sender.rail for test in tests}) == 1
        assert {(test.measures, test.size) for test in tests} == {("bandwidth", 1 << 14)}


def test_a_port_in_two_tests_of_a_direction_is_refused():
    tests = few_matchings(SHAPE.names, (0, 1), {})[0].tests((0, 1))
    with pytest.raises(ValueError, match="a port is in two tests"):
        MadeUpPaths(MadeUpFleet(SHAPE)).measure([*tests, replace(tests[0], receiver=End("x", 0))])


def test_the_kinds_of_the_bench_are_there_and_it_prints_the_same_again():
    assert set(SHOWN) <= set(KINDS)
    words = ["--nodes", "8", "--trials", "1", "--fault", "healthy", "--fault", "half-slot"]
    first, again = (CliRunner().invoke(main, words) for _ in range(2))
    assert first.exit_code == 0, first.output
    assert "| half-slot | rail | 1 | 100% | 100% | 0.00 | 11.0 | 76 |" in first.stdout
    assert first.stdout == again.stdout
