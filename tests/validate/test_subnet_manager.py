"""The checks of subnet managers are silent on healthy managers, and where there are none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.validate.runner import FakeHosts, functions, judge
from tests.validate.test_faults import _described


@pytest.mark.parametrize(("name", "engine"), [("gpu1", "passed"), ("gpu2", "skipped")])
def test_master_and_standby_pass(suite, fleet, nodes, name, engine):
    named = tuple(
        _described(each, {"subnet_manager_hosts": ["gpu1", "gpu2"]}) for each in fleet.nodes
    )
    outcomes = judged(suite, replace(fleet, nodes=named), nodes, name)
    states = {each.test.rpartition("::")[2]: each.state for each in outcomes}
    assert states.pop("test_routing_engine_in_force") == engine
    assert set(states.values()) == {"passed"}
    assert len(states) == 5


def test_site_without_managers_is_skipped(suite, fleet, nodes):
    assert {each.state for each in judged(suite, fleet, nodes, "gpu1")} == {"skipped"}


def judged(suite, fleet, nodes, name):
    hosts = FakeHosts({each: node.host() for each, node in nodes.items()})
    (only,) = [each for each in fleet.nodes if each.name == name]
    names = frozenset(test for test in functions(suite) if "test_subnet_manager" in test)
    return judge(suite, fleet, hosts, only=only, names=names)
