"""The suite is silent on a healthy fleet."""

from __future__ import annotations

from tests.validate.runner import FakeHosts, judge


def test_healthy(suite, fleet, nodes):
    hosts = FakeHosts({name: node.host() for name, node in nodes.items()})
    outcomes = judge(suite, fleet, hosts)
    wrong = [f"{o.test}[{o.target}] {o.state}: {o.said}" for o in outcomes if o.state in ("failed", "error")]
    assert wrong == []
    print(*[f"{o.test}[{o.target}] {o.said}" for o in outcomes if o.state == "skipped"], sep="\n")
    print(len(hosts["gpu1"].backend.ran))
