"""What a finding names: its level and its nodes."""

from __future__ import annotations

import pytest
from tests.unit.helpers.accept_runs import broken, healthy, say

from rdmaprov.acceptance.at_fault import run as blame
from rdmaprov.acceptance.at_fault import wrong_sums
from rdmaprov.acceptance.result import GateResult
from rdmaprov.finding.finding import LEVELS, Finding
from rdmaprov.report import of_accept


@pytest.mark.parametrize(
    ("said", "level", "nodes"),
    [
        ({}, "", ()),
        ({"node": "n1"}, "node", ("n1",)),
        ({"node": "n1", "rail": 2}, "rail", ("n1",)),
        ({"rail": 2}, "rail", ()),
        ({"nodes": ("n1", "n2")}, "pair", ("n1", "n2")),
        ({"nodes": ("n1", "n2"), "rail": 2}, "pair", ("n1", "n2")),
        ({"nodes": ("n1", "n2"), "level": "leaf"}, "leaf", ("n1", "n2")),
        ({"node": "n1", "level": "rank"}, "rank", ("n1",)),
    ],
)
def test_a_finding_knows_its_level_and_its_nodes(said, level, nodes):
    found = Finding("rail.slow", "what", "remedy", **said)
    assert (found.level, found.nodes) == (level, nodes)
    assert level in LEVELS
    assert found.as_data()["level"] == level
    assert found.as_data()["nodes"] == list(nodes)


def test_the_line_of_a_path_names_both_ends():
    found = Finding("packets.lost", "loses packets", "Check it", rail=3, nodes=("n1", "n2"))
    assert found.text == "n1, n2 rail 3: loses packets. Check it"


def test_the_line_of_a_large_leaf_stays_short():
    names = tuple(f"n{number}" for number in range(16))
    found = Finding("part.slow", "is slow", "Check it", level="leaf", nodes=names)
    assert found.text == "n0, n1, n2, n3 and 12 more: is slow. Check it"


def test_a_wrong_sum_names_a_rank():
    ran = healthy()
    say(
        ran,
        3,
        "wrong",
        task=0,
        group=0,
        plane="rail 0",
        dtype="float32",
        bytes=4096,
        in_place=True,
        first=[3, 777, 5.0, 2.0],
        of=1024,
    )
    (found,) = wrong_sums.findings(ran)
    assert (found.level, found.node) == ("rank", "n3")


def test_a_rank_that_failed_is_named_as_a_rank():
    ran = broken()
    for rank, error in enumerate(["Connection closed by peer"] * 3 + ["MemoryError: 8 GiB"]):
        say(ran, rank, "failed", phase="rail 1: sweep", error=error, entered=500)
    (found,) = blame.findings(ran)
    assert (found.level, found.nodes) == ("rank", ("n3",))


def test_both_ends_of_a_path_count_a_finding():
    result = GateResult(
        ("n0", "n1", "n2"), findings=[Finding("rdma.failed", "w", "r", nodes=("n0", "n2"))]
    )
    assert [node["findings"] for node in result.nodes_as_data().values()] == [1, 0, 1]


def test_the_report_shows_a_path_at_both_ends():
    result = GateResult(
        ("n0", "n1", "n2"), findings=[Finding("rdma.failed", "w", "r", nodes=("n0", "n2"))]
    )
    assert [each.node for each in of_accept._messages(result.as_data())] == ["n0", "n2"]
