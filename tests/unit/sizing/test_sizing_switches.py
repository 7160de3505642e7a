"""The switches of a fat tree: published designs, the worked example, odd sizes, refusals."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rdmaprov.exit_codes import ExitCode
from rdmaprov.sizing.switches import (
    FleetPorts,
    NoFatTreeError,
    Tier,
    bisection_gbps,
    check_ports,
    fat_tree,
    parse_ratio,
)

FIXTURE = Path(__file__).parents[2] / "fixtures/sizing/fabrics_published.yml"
DOCS = Path(__file__).parents[3] / "docs/sizing.md"
DESIGNS = yaml.safe_load(FIXTURE.read_text(encoding="utf-8"))
ONE = Fraction(1)
SIZES = [
    pytest.param(design, size, id=f"{design['name']}-{size[0]}")
    for design in DESIGNS
    for size in design["sizes"]
]


@pytest.mark.parametrize(
    ("design", "size"), SIZES, ids=lambda x: str(x[0]) if isinstance(x, list) else x["name"]
)
def test_published_design_is_counted_as_its_designers_did(design, size):
    nodes, leaves, spines, cores, to_nodes, to_spines = size
    endpoints = (nodes * design["rails"] + design["extra"]) // design["planes"]
    ratio = parse_ratio(design.get("oversubscription", "1"))
    tree = fat_tree(endpoints, design["ports"], ratio).times(design["planes"])
    assert (tree.leaves, tree.spines, tree.cores) == (leaves, spines, cores)
    published = [(to_nodes, tree.endpoints), (to_spines, tree.leaf_cables)]
    assert all(count in (None, counted) for count, counted in published)


def test_there_are_four_published_designs_or_more():
    assert len({design["source"] for design in DESIGNS}) >= 4


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design["name"])
def test_published_design_is_in_the_docs(design):
    text = DOCS.read_text(encoding="utf-8")
    assert design["source"].split(",")[0] in text
    counts = ", ".join(f"{size[0]:,}" for size in design["sizes"])
    assert f"| {counts} |" in text


def test_512_nodes_of_8_rails_as_planes_take_two_levels():
    wanted = FleetPorts(512, 8, 400, 64)
    tree = wanted.tree(wanted.separate)
    assert (tree.levels, tree.leaves, tree.spines, tree.cores) == (2, 128, 64, 0)
    assert (tree.leaf, tree.cables) == (Tier(32, 32), 4096 + 4096)
    assert bisection_gbps(tree, 400) == 4096 * 400 / 2


def test_512_nodes_of_8_rails_as_one_tree_take_three_levels():
    """A spine of 64 ports reaches 64 leaves, so two levels end at 64 × 32 ports of nodes."""
    tree = FleetPorts(512, 8, 400, 64).tree(1)
    assert (tree.levels, tree.leaves, tree.spines, tree.cores) == (3, 128, 128, 64)
    assert bisection_gbps(tree, 400) == 4096 * 400 / 2


@pytest.mark.parametrize(
    ("endpoints", "levels"), [(64, 1), (65, 2), (2048, 2), (2049, 3), (65536, 3)]
)
def test_levels_follow_from_the_ports(endpoints, levels):
    assert fat_tree(endpoints, 64, ONE).levels == levels


def test_one_port_more_than_three_levels_have_is_refused_with_their_number():
    with pytest.raises(NoFatTreeError, match="at most 65,536") as caught:
        fat_tree(65537, 64, ONE)
    assert caught.value.exit_code == ExitCode.USAGE
    assert "--ports" in caught.value.hint


def test_leaves_are_rounded_up_and_shares_are_equal():
    tree = fat_tree(65, 64, ONE)
    assert (tree.leaves, tree.spines, tree.leaf) == (3, 2, Tier(22, 22))


def test_uplinks_of_a_prime_number_leave_ports_free_instead_of_a_spine_each():
    tree = fat_tree(90, 62, ONE)
    assert (tree.leaves, tree.spines, tree.leaf) == (3, 2, Tier(30, 30))


def test_oversubscription_gives_leaves_more_ports_to_nodes_and_fewer_spines():
    plain, two = (fat_tree(512, 64, Fraction(ratio)) for ratio in (1, 2))
    assert (two.leaf, two.leaves, two.spines) == (Tier(40, 20), 13, 5)
    assert two.switches < plain.switches
    assert two.crossing == 13 * 20 / 2


def test_oversubscription_leaves_the_cores_as_wide_as_the_uplinks():
    tree = fat_tree(16384, 64, Fraction(3))
    assert tree.levels == 3
    assert tree.core_cables >= tree.leaf_cables


@settings(max_examples=50)
@given(st.integers(2, 5000), st.integers(4, 128), st.sampled_from(["1", "2", "4", "3:2"]))
def test_a_tree_has_room_for_all_of_its_cables(endpoints, ports, ratio):
    wanted = parse_ratio(ratio)
    try:
        tree = fat_tree(endpoints, ports, wanted)
    except NoFatTreeError:
        return
    if tree.levels == 1:
        assert endpoints <= ports
        return
    leaf = tree.leaf
    assert leaf.down + leaf.up <= ports
    assert Fraction(leaf.down, leaf.up) <= wanted
    assert tree.leaves * leaf.down >= endpoints > (tree.leaves - 1) * leaf.down
    assert tree.leaf_cables + tree.core_cables <= tree.spines * ports
    assert tree.core_cables <= tree.cores * ports
    if tree.levels == 2:
        assert leaf.up % tree.spines == 0
        assert tree.leaves <= ports


@pytest.mark.parametrize("text", ["0", "0.5", "1:0", "101", "-1", "x", "", "2:", "nan", "1e3"])
def test_what_is_no_ratio_is_refused(text):
    with pytest.raises(NoFatTreeError, match="not a ratio"):
        parse_ratio(text)


@pytest.mark.parametrize(
    ("wanted", "option"),
    [
        (FleetPorts(1, 8, 400, 64), "--nodes"),
        (FleetPorts(2, 0, 400, 64), "--rails"),
        (FleetPorts(2, 8, float("nan"), 64), "--link-gbps"),
        (FleetPorts(2, 8, 400, 577), "--ports"),
        (FleetPorts(2, 8, 400, 64, planes=3), "--planes"),
        (FleetPorts(2, 8, 400, 64, planes=-1), "--planes"),
    ],
)
def test_impossible_numbers_name_their_option(wanted, option):
    with pytest.raises(NoFatTreeError, match=option):
        check_ports(wanted)


@pytest.mark.parametrize(("ports", "endpoints"), [(2, 3), (3, 7)])
def test_switches_with_too_few_ports_build_no_tree(ports, endpoints):
    with pytest.raises(NoFatTreeError):
        fat_tree(endpoints * 100, ports, ONE)
