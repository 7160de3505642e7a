"""What most nodes have alike, each alone, is one finding."""

from __future__ import annotations

import pytest

from rdmaprov.acceptance.stages import host
from rdmaprov.finding.finding import Finding


def old_driver(node):
    remedy = f"On {node}: install a driver"
    return Finding("rank.failed", "it is old", remedy, node, values={"cause": "driver-old"})


@pytest.mark.parametrize(("nodes", "findings"), [(3, 1), (64, 1), (2, 2)])
def test_cause_that_most_nodes_have_is_one_finding(nodes, findings):
    names = [f"n{index}" for index in range(nodes)]
    found = host._folded([old_driver(name) for name in names], nodes)
    assert len(found) == findings
    assert {name for each in found for name in each.nodes} == set(names)
    if findings == 1:
        assert (found[0].level, found[0].node) == ("fleet", "")
        assert found[0].remedy == "install a driver"
