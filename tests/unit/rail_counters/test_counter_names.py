"""A counter that one verb judges is judged by all, or the table says why not."""

import json
import re

import pytest
from tests.madeup.shape import FleetShape
from tests.madeup.site import site_nodes

from rdmaprov.facts import counters
from rdmaprov.facts.text import END
from rdmaprov.node.counter_names import CONGESTED, RETRIES, TABLE
from rdmaprov.node.kept_counters import ETHTOOL
from rdmaprov.rail_counters import link_errors
from rdmaprov.rail_counters.traffic import rail_traffic
from rdmaprov.watch.answers import parse_names, parse_steps
from rdmaprov.watch.fleet import WatchedFleet
from rdmaprov.watch.judge import judge
from rdmaprov.watch.node_account import NodeAccount

NODES = site_nodes(FleetShape(3, gpus=2, rails=2, per_leaf=3))
RISE = 10**9
JUDGED = [each for each in TABLE if each.judged != CONGESTED]
REPORTED = [each.name for each in TABLE if each.judged == CONGESTED]


def accepted(name):
    """Return what the gate finds where rail 1 of the first node counted this."""

    def read(node, time, count):
        own = [{"counters": {name: 0}}, {"counters": {name: count if node is NODES[0] else 0}}]
        return {"time": time, "rails": own}

    traffic = [
        each
        for node in NODES
        for each in rail_traffic(node, read(node, 0, 0), read(node, 100, RISE))
    ]
    return link_errors.findings(traffic, lossless=3)


def watched(name):
    """Return what a watch says of the same, by the answers of the nodes' programs."""
    accounts = {node.name: NodeAccount(node) for node in NODES}
    names = [f"{rail}/{each}" for rail in (0, 1) for each in ("down", name)]
    opened = {
        "us": 0,
        "cpu_us": 0,
        "boot": "b",
        "names": names,
        "counts": [0] * len(names),
        "rails": [{"rdma": f"mlx5_{rail}", "netdev": f"ens{rail}"} for rail in (0, 1)],
    }
    for account in accounts.values():
        account.start(parse_names(json.dumps(opened), 2), 0.0)
    for second in range(1, 13):
        for node in NODES:
            rises = node is NODES[0]
            step = {"us": second * 10**6, "cpu_us": 0, "gone": []}
            step |= {"at": [3] if rises else [], "by": [RISE] if rises else []}
            accounts[node.name].add(parse_steps(json.dumps(step), len(names)), float(second))
    return judge(WatchedFleet(accounts, 12.0))


@pytest.mark.parametrize("counter", JUDGED, ids=lambda each: each.name)
def test_rise_is_found_by_accept_and_watch(counter):
    found = accepted(counter.name)
    # Whose fault it is that a connection ended, its counter does not tell.
    assert [(each.rail, each.proven) for each in found] == [(1, counter.judged != RETRIES)]
    assert NODES[0].name in found[0].nodes
    if "watch" not in counter.without:
        accusing = [v for v in watched(counter.name) if v.proven]
        assert [v.rail for v in accusing] == [1]
        assert NODES[0].name in accusing[0].nodes


@pytest.mark.parametrize("name", REPORTED)
def test_what_congestion_control_does_is_no_fault(name):
    assert accepted(name) == []


@pytest.mark.parametrize("counter", JUDGED, ids=lambda each: each.name)
def test_counter_is_read_by_each_verb_that_judges_it(counter, watch_program):
    place, _, name = counter.name.partition(".")
    if "watch" not in counter.without:
        wanted = re.compile(ETHTOOL.pattern + watch_program["MORE"])
        assert wanted.fullmatch(name) or name in watch_program["WATCHED"].get(place, ())
    if "validate" not in counter.without:
        assert re.search(rf"\b{name}\b", counters.GROWTH)
        device = {"port": "mlx5_0", "ethtool": "ens1"}[place]
        lines = {
            "port": "/sys/class/infiniband/mlx5_0/ports/1/counters/{}:{}\n",
            "ethtool": "@ ens1\n     {}: {}\n",
        }
        first, second = (lines[place].format(name, count) for count in (0, RISE))
        assert counters.parse_growth(f"{first}==\n{second}{END}\n").of(device) == {name: RISE}


@pytest.fixture(scope="module")
def watch_program():
    from rdmaprov.watch import collect

    source = collect.PROGRAM.read_text().rpartition("\nmain(")[0]
    defined: dict[str, object] = {}
    exec(compile(source, str(collect.PROGRAM), "exec"), defined)  # noqa: S102 - it ends with what would answer
    return defined


def test_names_are_unique_and_reasons_are_of_verbs():
    names = [each.name for each in TABLE]
    assert len(names) == len(set(names))
    for each in TABLE:
        assert each.without.keys() <= {"validate", "watch"}
        assert all(each.without.values())
