"""The priority of the traffic of path tests, by what senders and receivers counted."""

from __future__ import annotations

import pytest
from tests.madeup.shape import FleetShape
from tests.madeup.site import site_nodes

from rdmaprov.acceptance.stages.pairs import judge_priorities

NODES = site_nodes(FleetShape(4, gpus=2, rails=2, per_leaf=2))
NAMES = [node.name for node in NODES]
GB = 10**9


def read(counts, seconds=0.0):
    """Return what the reader says of a node whose rails have these counters."""
    rails = [{"counters": {f"ethtool.{name}": n for name, n in own.items()}} for own in counts]
    return {"time": seconds, "rails": rails, "others": {}}


def judged(changes=None, kinds=("tx_prio{}_bytes", "rx_prio{}_bytes")):
    """Return what is found if all traffic has priority 3, but for changes by node and rail."""
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
    return judge_priorities(NODES, before, after)


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
    assert judge_priorities(NODES, before, {}) == ([], [])
