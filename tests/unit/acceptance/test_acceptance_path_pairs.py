"""The stage `pairs` tests paths first, and then collectives without the nodes at fault."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest import mock

import pytest
from tests.madeup.accept import accept
from tests.madeup.faults import kinds
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.paths import MadeUpPaths
from tests.madeup.shape import FleetShape
from tests.madeup.site import site_nodes
from tests.unit.helpers.gate_sites import made_site
from tests.unit.helpers.live_ranks import FakeRunner

from rdmaprov.acceptance.ask.nodes import Nodes
from rdmaprov.acceptance.live.ranks import LiveRanks
from rdmaprov.acceptance.options import Options
from rdmaprov.acceptance.paths.survey import NodeSurvey
from rdmaprov.acceptance.preflight import readings
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.preflight.reach import Rendezvous
from rdmaprov.acceptance.stage_report import StageReport
from rdmaprov.acceptance.stages import groups as stages_groups
from rdmaprov.acceptance.stages import pairs as stages_path_pairs
from rdmaprov.acceptance.stages.pair_paths import run_paths
from rdmaprov.acceptance.stages.pairs import measure_site_paths
from rdmaprov.perftest.tool.options import Abilities, RdmaPort

SHAPE = FleetShape(8, gpus=2, rails=2, per_leaf=2)
KINDS = {kind.name: kind for kind in kinds(held_out=True)}
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
    fleet = MadeUpFleet(SHAPE)
    opened = mock.Mock(return_value=nullcontext(MadeUpPaths(fleet)))
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
    """Return an acceptance up to the stage of pairs whose nodes have perftest."""
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


def test_paths_of_a_run_that_is_resumed_are_in_its_result():
    report = StageReport("pairs", "12 paths", detail={"names": ["gpu001"], "rows": []})
    done = accept(
        SHAPE, None, stages=("state", "preflight", "pairs", "fleet"), known={"pairs": report}
    )
    assert done.result.details["paths"] == report.detail


def test_a_healthy_fleet_has_both_parts():
    done = accepted(None)
    stage = next(each for each in done.result.stages if each.name == "pairs")
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
