"""Training steps: which node, rail or data is at fault, and where nobody is accused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.madeup.accept import accept
from tests.madeup.shape import usual_shape
from tests.madeup.training_faults import training_kinds
from tests.madeup.training_trials import judge
from tests.unit.helpers.training_stages import STAGES, of_gloo, stage

from rdmaprov.acceptance.training.at_fault import node_findings, slow_groups
from rdmaprov.acceptance.training.scaling import knees, scale_points

KINDS = {kind.name: kind for kind in training_kinds()}


def test_alike_nodes_are_not_named(tmp_path):
    times, _ = of_gloo(tmp_path)
    assert node_findings(times) == []
    assert slow_groups(times) == []
    points = scale_points(times)
    assert {point.efficiency for point in points if point.nodes == 1} == {1.0}
    last = points[-1]
    assert last.exposed_us == pytest.approx(50_000)
    assert last.efficiency == pytest.approx(100_050 / 150_050)
    assert [point.nodes for point in knees(points, 0.9)] == [2, 2, 4, 4]


@pytest.mark.parametrize(
    ("slow", "level", "says"),
    [
        ({"cpu": {2: 5.0}}, "node", "its CPU alone: 2 GFLOP/s"),
        ({"gemm": {2: 5.0}}, "rank", "had a processor for 20 % of the time"),
        ({"step": {2: 5.0}}, "node", "its process is late"),
        ({"data": {2: 60_000.0}}, "node", "the loader is late"),
    ],
    ids=["slow CPU", "CPU limit", "late process", "slow data"],
)
def test_a_slow_part_of_a_node_is_named_by_its_own_evidence(tmp_path, slow, level, says):
    times, _ = of_gloo(tmp_path, **slow)
    found = node_findings(times)
    assert [(each.node, each.level) for each in found] == [("n3", level)]
    assert says in found[0].what


@pytest.mark.parametrize("count", [2, 3])
def test_of_a_few_nodes_the_slower_one_is_named(tmp_path, count):
    times, _ = of_gloo(tmp_path, count, cpu={1: 5.0})
    assert [each.node for each in node_findings(times)] == ["n2"]


def test_twofold_differences_of_cpus_accuse_nobody(tmp_path):
    times, _ = of_gloo(tmp_path, gemm={0: 2.0}, cpu={1: 2.0}, step={2: 2.0})
    assert node_findings(times) == []


def test_what_most_ranks_show_accuses_nobody(tmp_path):
    times, _ = of_gloo(tmp_path, step={0: 0.2}, cpu={1: 0.2})
    assert node_findings(times) == []


def test_data_that_are_late_everywhere_are_of_the_fleet(tmp_path):
    times, _ = of_gloo(tmp_path, data=dict.fromkeys(range(4), 60_000.0))
    assert [(each.level, each.nodes) for each in node_findings(times)] == [("fleet", ())]


def test_a_rail_that_is_slow_with_all_nodes_is_seen(tmp_path):
    times, _ = of_gloo(tmp_path, message={"rail 1": 9.0})
    assert any(each.startswith("rail 1: all nodes reach") for each in slow_groups(times))


def test_of_two_nodes_the_one_that_sends_slowly_on_a_rail_is_named(tmp_path):
    times, site = of_gloo(tmp_path, 2, message={"rail 1": 9.0})
    report = stage(times, site)
    assert [(each.node, each.rail) for each in report.findings] == [("n2", 1)]


@pytest.mark.parametrize("name", ["hot-gpu", "slow-gpu", "slow-launch", "slow-data", "slow-rail"])
def test_a_fault_that_touches_training_is_named(name):
    one_leaf = replace(usual_shape(4), per_leaf=4)
    trial = judge(KINDS[name], accept(one_leaf, KINDS[name], 3, stages=STAGES))
    assert (trial.efficiency, trial.knee, trial.named, trial.false) == (True, True, True, 0)


def test_a_wrong_name_does_not_count():
    other = accept(usual_shape(4), KINDS["hot-gpu"], 3, stages=STAGES)
    found = [finding for finding in other.result.findings if finding.nodes]
    name = next(n for n in other.fleet.shape.names if n != found[0].node)
    other.result.findings[:] = [replace(found[0], node=name, nodes=())]
    trial = judge(KINDS["hot-gpu"], other)
    assert (trial.named, trial.false) == (False, 1)
