"""The stage scaling: its sets, what makes a knee and what does not, on made-up fleets too."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from tests.madeup.accept import accept
from tests.madeup.faults import kinds
from tests.madeup.shape import usual_shape
from tests.report import gate_runs, runs
from tests.unit.helpers.live_ranks import FakeRunner, made_site, slow

from rdmaprov.acceptance.stage_report import parse_stages, stage_from, stage_to_keep
from rdmaprov.acceptance.stages import scaling_view
from rdmaprov.acceptance.stages.scaling import run_scaling
from rdmaprov.acceptance.stages.scaling_view import findings
from rdmaprov.isolation.scaling import KneeCause, ScalePoint, SetRate, judge_curve
from rdmaprov.report import bandwidth, of_accept

ONLY = ("state", "preflight", "scaling")
GIB = 1 << 30
ROOT = Path(__file__).parents[3]


# --- sets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "wanted"), [(2, (2,)), (3, (2, 3)), (12, (2, 4, 8, 12)), (16, (2, 4, 8, 16))]
)
def test_counts_are_powers_of_two_and_all_nodes(nodes, wanted):
    assert scaling_view.counts(nodes) == wanted


@pytest.mark.parametrize(("nodes", "per_leaf"), [(16, 4), (12, 4), (13, 5), (9, 0), (7, 3)])
def test_each_node_is_in_a_set_of_each_count_and_a_round_has_none_twice(tmp_path, nodes, per_leaf):
    site = made_site(tmp_path, nodes, per_leaf=per_leaf)
    for count in scaling_view.counts(nodes):
        rounds = scaling_view.sets_of(site, count)
        for groups in rounds:
            names = [name for group in groups for name in group]
            assert len(names) == len(set(names))
            assert {len(group) for group in groups} == {count}
        everyone = {name for groups in rounds for group in groups for name in group}
        assert everyone == {node.name for node in site.nodes}


def test_sets_up_to_a_leaf_are_inside_one_and_larger_ones_are_ordered_across(tmp_path):
    site = made_site(tmp_path, 16, per_leaf=4)
    leaves = scaling_view.leaf_of(site)
    small = [g for groups in scaling_view.sets_of(site, 4) for g in groups]
    assert {scaling_view.spanned(group, leaves) for group in small} == {1}
    order = [leaves[node.name] for node in scaling_view.alternating(site).nodes]
    assert all(one != other for one, other in itertools.pairwise(order))
    again = scaling_view.by_leaf(scaling_view.alternating(site))
    assert scaling_view.alternating(site).nodes[0] == site.nodes[0] == again.nodes[0]


def test_without_leaves_it_is_not_known_what_a_set_spans(tmp_path):
    assert scaling_view.spanned(("n1", "n8"), scaling_view.leaf_of(made_site(tmp_path, 8))) == 0


# --- the curve ----------------------------------------------------------------------------------


def made_set(names, gb_s, in_order=0.0, leaves=1, healthy=300.0, us=50.0):
    return SetRate(tuple(names), leaves, us, gb_s, in_order or gb_s, healthy, 100.0)


def curve(*rates, in_order=0.0, healthy=300.0, leaves=2):
    """Return points of 2, 4, … nodes with one set for each rate."""
    names = "abcdefghijklmnop"
    points = []
    for place, own in enumerate(rates):
        count = 2 << place
        sets = [
            made_set(
                names[at * count : (at + 1) * count],
                rate,
                in_order if place > 1 else 0.0,
                leaves if place > 1 else 1,
                healthy,
            )
            for at, rate in enumerate(own)
        ]
        points.append(ScalePoint(count, tuple(sets), GIB))
    return points


def knee_of(points):
    found = judge_curve(points).knee
    assert found is not None
    return found


FLAT = ([350] * 8, [350] * 4, [350] * 2, [350])


def test_what_a_healthy_model_loses_with_nodes_is_no_knee():
    falling = [
        replace(
            point,
            sets=tuple(
                replace(
                    s, gb_s=350 - 20 * at, in_order_gb_s=350 - 20 * at, healthy_gb_s=340 - 20 * at
                )
                for s in point.sets
            ),
        )
        for at, point in enumerate(curve(*FLAT))
    ]
    assert judge_curve(falling).knee is None


def test_a_curve_that_breaks_where_sets_cross_leaves_rests_on_them():
    knee = knee_of(curve([350] * 8, [350] * 4, [170, 350], [170], in_order=350))
    assert (knee.nodes, knee.cause) == (8, KneeCause.LEAVES)
    assert "2.1:1" in knee.why
    every = curve([350] * 8, [350] * 4, [170, 170], [170], in_order=350)
    assert knee_of(every).cause is KneeCause.OVERSUBSCRIPTION


def test_a_bad_node_is_slow_where_it_takes_part_and_makes_no_knee():
    bad = curve([350, 350, 170, *[350] * 5], [350, 170, 350, 350], [170, 350], [170])
    verdict = judge_curve(bad)
    assert verdict.knee is None
    assert [each.nodes for each in verdict.odd] == [("e", "f")]
    assert [found.proven for found in findings(verdict)] == [False]


def test_a_bad_node_hides_no_knee_of_the_others():
    both = curve([350, 350, 170, *[350] * 5], [350, 170, 350, 350], [170, 170], [170], in_order=350)
    knee = knee_of(both)
    assert (knee.nodes, len(knee.sets)) == (8, 1)
    assert "i" in knee.sets[0].nodes
    assert [each.nodes for each in judge_curve(both).odd] == [("e", "f")]


def test_a_path_that_one_order_alone_uses_is_no_knee():
    assert judge_curve(curve([350] * 8, [350] * 4, [170, 350], [350], in_order=350)).knee is None


def test_a_knee_beyond_the_first_count_across_leaves_does_not_rest_on_uplinks():
    """The smaller sets loaded them as much; one path of the ring of all nodes may be bad."""
    late = curve([350] * 8, [350] * 4, [350] * 2, [170], in_order=350)
    assert (knee_of(late).nodes, knee_of(late).cause) == (16, KneeCause.UNKNOWN)
    assert [found.proven for found in findings(judge_curve(late))] == [False]


def test_pairs_below_the_model_are_a_level_and_no_knee():
    low = judge_curve(curve([200] * 8, [200] * 4, [200] * 2, [200]))
    assert (low.knee, low.is_low) == (None, True)


def test_latency_beyond_the_model_is_what_a_knee_rests_on():
    points = curve(*FLAT[:3], [250])
    # 1 GiB takes 8.6 ms at 250 GB/s, and 7.2 ms at 300.
    late = replace(points[-1], sets=(replace(points[-1].sets[0], latency_us=1500.0),))
    assert knee_of([*points[:-1], late]).cause is KneeCause.LATENCY
    assert knee_of(points).cause is KneeCause.UNKNOWN


def test_no_finding_of_a_knee_names_nodes_and_an_unknown_one_is_not_proven():
    for points, proven in (
        (curve([350] * 8, [350] * 4, [170, 350], [170], in_order=350), True),
        (curve(*FLAT[:3], [250]), False),
    ):
        [found] = findings(judge_curve(points))
        assert (found.level, found.nodes, found.proven) == ("fleet", (), proven)


# --- the stage ----------------------------------------------------------------------------------


def test_stages_do_not_include_it_unless_asked():
    assert "scaling" not in parse_stages("")
    assert parse_stages("fleet,scaling")[-2:] == ("scaling", "fleet")


def test_a_slow_node_takes_out_nobody_and_ranks_start_twice(tmp_path):
    site = made_site(tmp_path, 16, per_leaf=4)
    runner = FakeRunner(slow("n6"))
    report = run_scaling(site, runner, 0.0)
    assert (report.left_out, [f.nodes for f in report.findings]) == ({}, [("n5", "n6")])
    assert len(runner.jobs) == 2
    assert stage_from(json.loads(json.dumps(stage_to_keep(report)))).detail == report.detail


def test_a_node_that_dies_is_left_out_and_the_others_have_a_curve(tmp_path):
    site = made_site(tmp_path, 8, per_leaf=4)
    report = run_scaling(site, FakeRunner(lambda node, *_: None if node == "n6" else 1.0), 0.0)
    assert list(report.left_out) == ["n6"]
    points, _ = curve_of(report.detail)
    assert [point["nodes"] for point in points] == [2, 4, 7]


def test_over_gloo_each_rail_has_a_curve_without_a_model(tmp_path):
    report = run_scaling(made_site(tmp_path, 4, "gloo"), FakeRunner(slow("none")), 0.0)
    planes = (report.detail or {})["planes"]
    assert [plane["name"] for plane in planes] == ["rail 0", "rail 1"]
    assert {point["healthy_gb_s"] for plane in planes for point in plane["points"]} == {0.0}
    assert not report.findings


MADE_UP = {kind.name: kind for kind in kinds(held_out=True)}


def curve_of(detail):
    """Return the points and the knee of the only plane that the stage measured."""
    [plane] = detail["planes"]
    return plane["points"], plane["knee"]


@pytest.mark.parametrize(
    ("name", "knee"),
    [("", None), ("leaf-uplinks", 8), ("half-spines", 8), ("half-slot", None), ("bad-path", None)],
)
def test_a_made_up_fleet_has_the_knee_that_its_physics_make(name, knee):
    done = accept(usual_shape(16), MADE_UP.get(name), 3, stages=ONLY)
    points, found = curve_of(done.result.details["scaling"])
    assert (found or {}).get("nodes") == knee
    assert [point["nodes"] for point in points] == [2, 4, 8, 16]
    assert all(found.level == "fleet" for found in done.result.findings if found.proven)


def test_the_page_shows_the_curve_and_names_the_knee():
    done = accept(usual_shape(8), MADE_UP["half-spines"], 1, stages=ONLY)
    data = {**gate_runs.accepted(8), "scaling": runs.plain(done.result.details["scaling"])}
    schema = json.loads((ROOT / "docs/results.schema.json").read_text())
    Draft202012Validator(schema).validate(data)
    [plot] = bandwidth.plots_by_nodes(data)
    assert next(of_accept._plots(data)).name == plot.name
    assert plot.words.startswith("Knee at 4 nodes")
    assert [row[0] for row in plot.table.rows] == ["2", "4", "8"]
    assert list(bandwidth.plots_by_nodes(gate_runs.accepted(4))) == []
