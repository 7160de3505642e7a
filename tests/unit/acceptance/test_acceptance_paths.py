"""The stages of paths and pairs, on made-up fleets: what they name, and leave unknown."""

import json
import random
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest import mock

import pytest
from bench.paths import main
from click.testing import CliRunner
from tests.madeup.accept import accept
from tests.madeup.faults import kinds
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.paths import SHOWN, MadeUpPaths
from tests.madeup.shape import FleetShape
from tests.madeup.site import site_nodes
from tests.unit.helpers.live_ranks import FakeRunner, made_site

from rdmaprov.acceptance.ask.nodes import Nodes
from rdmaprov.acceptance.live.ranks import LiveRanks
from rdmaprov.acceptance.options import Options
from rdmaprov.acceptance.paths.plan import PathOptions
from rdmaprov.acceptance.paths.survey import NodeSurvey
from rdmaprov.acceptance.preflight import readings
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.preflight.reach import Rendezvous
from rdmaprov.acceptance.stage_report import StageReport
from rdmaprov.acceptance.stages import groups as stages_groups
from rdmaprov.acceptance.stages import pairs as stages_path_pairs
from rdmaprov.acceptance.stages.pair_paths import join_parts, run_paths
from rdmaprov.acceptance.stages.pairs import measure_site_paths
from rdmaprov.acceptance.stages.resume import Resumed
from rdmaprov.isolation.model import FaultyPart
from rdmaprov.perftest.matchings import few_matchings
from rdmaprov.perftest.model import End, PathResult, PathTest
from rdmaprov.perftest.tool.options import Abilities, RdmaPort

SHAPE = FleetShape(8, gpus=2, rails=2, per_leaf=2)
KINDS = {kind.name: kind for kind in kinds(held_out=True)}


def run(name="", seed=0, shape=SHAPE, **options):
    fleet = MadeUpFleet(shape, KINDS.get(name), seed)
    return fleet, run_paths(site_nodes(shape), MadeUpPaths(fleet), PathOptions(**options))


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


@pytest.mark.parametrize(
    ("error", "said", "why"),
    [
        ("no-perftest", "", "perftest is not installed (24)"),
        ("not-run", "its supervisor is gone", "it was not run (24; its supervisor is gone)"),
    ],
)
def test_a_node_without_results_is_unknown_and_never_passed(error, said, why):
    report = run_paths(site_nodes(SHAPE), WithoutResults("gpu003", error, said))
    [finding] = report.stage.findings
    assert (finding.node, finding.proven, report.stage.state) == ("gpu003", False, "unknown")
    assert finding.what == f"24 paths of it have no result: {why}"


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


ABLE = NodeSurvey(
    "192.0.2.1",
    {"ib_write_bw": cast(Abilities, object())},
    {0: cast(RdmaPort, object())},
    {
        "rails": [{"device": "mlx5_0", "path": [{"address": "0000:17:00.0", "link": [""] * 4}]}],
        "gpus": [],
    },
)
SOFTWARE = NodeSurvey(
    ABLE.address,
    ABLE.abilities,
    ABLE.ports,
    {"rails": [{"device": "rxe0", "path": []}], "gpus": []},
)
NONE = NodeSurvey()


def measured(surveys, **options):
    """Return the report of a site whose nodes said this, the settings, and the nodes that ran."""
    site = GateSite(site_nodes(SHAPE)[: len(surveys)], {}, "nccl", cast(Rendezvous, None))
    said = {node.name: each for node, each in zip(site.nodes, surveys, strict=True)}
    opened = mock.Mock(return_value=nullcontext(MadeUpPaths(MadeUpFleet(SHAPE))))
    with (
        mock.patch.object(stages_path_pairs, "survey_nodes", return_value=said),
        mock.patch.object(stages_path_pairs, "open_path_tests", opened),
        mock.patch.object(readings, "read_counters", return_value={}),
    ):
        return measure_site_paths(cast(Nodes, SimpleNamespace()), site, Options(**options)), opened


@pytest.mark.parametrize("surveys", [[NONE] * 4, [ABLE, NONE, NONE], [ABLE, SOFTWARE]])
def test_without_two_nodes_that_can_nothing_is_tested(surveys):
    report, opened = measured(surveys)
    assert report is None
    assert not opened.called


def test_nodes_with_perftest_are_tested_and_the_others_are_a_note():
    report, opened = measured([ABLE, ABLE, NONE, ABLE])
    assert {name for path in report.bandwidth.samples for name in path[:2]} == {
        "gpu001",
        "gpu002",
        "gpu004",
    }
    assert report.stage.notes == ["paths of 1 node not verified: no perftest"]
    assert list(opened.call_args.args[1]) == ["gpu001", "gpu002", "gpu004"]


def test_soft_roce_is_tested_where_there_is_nothing_else():
    report, opened = measured([SOFTWARE] * 4)
    settings = opened.call_args.args[2]
    assert (settings.qp_timeout, settings.mtu) == (18, 4096)
    assert "Soft-RoCE" in report.expected
    report, opened = measured([SOFTWARE, ABLE, SOFTWARE, ABLE])
    assert list(opened.call_args.args[1]) == ["gpu002", "gpu004"]
    assert opened.call_args.args[2].qp_timeout == 0
    assert "Soft-RoCE" not in report.expected


def test_paths_between_rails_are_tested_where_asked():
    report, _ = measured([ABLE] * 4, cross_rail=True)
    assert "; 24 paths between rails" in report.stage.said
    assert report.stage.state == "passed"
    report, _ = measured([ABLE] * 4)
    assert "between rails" not in report.stage.said


def test_traffic_goes_as_the_jobs_traffic_does():
    _, opened = measured([ABLE] * 2)
    roce = opened.call_args.args[2]
    assert (roce.dscp, roce.service_level, roce.mtu) == (26, None, 4096)


def test_all_pairs_are_tested_where_asked():
    few, _ = measured([ABLE] * 8)
    every, _ = measured([ABLE] * 8, pairs=True)
    assert (few.bandwidth.rounds, every.bandwidth.rounds) == (6, 7)


def accepted(kind):
    shape = FleetShape(8, gpus=2, rails=2, per_leaf=2)

    def paths(_connection, site, _options):
        return run_paths(site.nodes, MadeUpPaths(MadeUpFleet(shape, kind)))

    with mock.patch.object(stages_path_pairs, "measure_site_paths", paths):
        return accept(shape, kind, stages=("state", "preflight", "pairs"))


def test_a_rail_that_paths_name_is_in_no_collective():
    done = accepted(KINDS["half-slot"])
    [node] = [done.fleet.shape.names[truth.nodes[0]] for truth in done.fleet.truths]
    stage = next(each for each in done.result.stages if each.name == "pairs")
    assert list(stage.left_out) == [node]
    assert [(each.level, each.node) for each in stage.findings] == [("rail", node)]
    assert stage.said.startswith("11 rounds of paths on 2 rails: ")
    assert "rounds of 3 pairs side by side" in stage.said
    assert "paths" in done.result.details


def test_paths_of_a_run_that_is_resumed_are_in_its_result_unless_a_node_is_another_one():
    report = StageReport("pairs", "12 paths", detail={"names": ["gpu001"], "rows": []})
    entries = accept(SHAPE, stages=("state", "preflight")).result.nodes_as_data()
    kept = Resumed("r", {"pairs": report}, entries)
    for notes in [], ["measured again: gpu003: another boot since r"]:
        done = accept(SHAPE, stages=("state", "preflight", "pairs"), known=kept).result
        assert [each for each in done.stages[1].notes if "again" in each] == notes
        assert (done.details.get("paths") == report.detail) is done.resumed is (not notes)
        entries["gpu003"]["boot_id"] = "another"


def test_a_healthy_fleet_has_both_parts():
    stage = next(each for each in accepted(None).result.stages if each.name == "pairs")
    assert (stage.state, stage.left_out) == ("passed", {})
    assert "rounds of 4 pairs side by side" in stage.said


RECORDED = Path(__file__).parents[2] / "fixtures/gloo/pairs-of-four-nodes.jsonl"


class RecordedRunner(FakeRunner):
    """Has each pair measure what it was recorded with: again and again, in that order."""

    def __init__(self):
        super().__init__(lambda *_: 1.0)
        self.recorded = defaultdict(list)
        for line in RECORDED.read_text().splitlines():
            row = json.loads(line)
            pair = tuple(name.replace("node", "n") for name in row["nodes"])
            self.recorded[row["plane"], pair].append(row)

    def times(self, run, task, ranks, size):
        pair = tuple(sorted(map(run.job.node_of, ranks)))
        rows = self.recorded[task.plane, pair] or self._alike(task.plane, "n4" in pair)
        rows.append(row := rows.pop(0))
        assert size == row["bytes"]
        return {"median_us": row["median_us"], "p99_us": row["median_us"], "min_us": row["min_us"]}

    def _alike(self, plane, has_culprit):
        """Return what other pairs had, for one that was not asked there."""
        return [
            row
            for (where, pair), rows in self.recorded.items()
            for row in rows
            if where == plane and has_culprit == ("n4" in pair)
        ]


def test_pair_that_had_the_processors_to_itself_accuses_no_other(tmp_path):
    site = made_site(tmp_path, 4, "gloo")
    with LiveRanks(site, RecordedRunner(), "isolation").opened() as live:
        found = stages_groups.run_isolation(live, site)
    assert [(each.node, each.rail) for each in found] == [("n4", 1)]
