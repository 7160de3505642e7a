"""A node that does not answer is named, and costs the others nothing."""

from __future__ import annotations

from dataclasses import replace

from testinfra.host import Host
from tests.validate.fake_node import FakeBackend
from tests.validate.runner import FakeHosts, judge


class DeafBackend(FakeBackend):
    """A node that answers nothing."""

    def run(self, *_args, **_kwargs):
        raise TimeoutError(f"{self.root.name}: no answer within 20 s")


def test_fleet_is_judged_without_it(suite, fleet, nodes, tmp_path):
    third = replace(fleet.nodes[1], name="gpu3")
    all_nodes = replace(fleet, nodes=(*fleet.nodes, third))
    hosts = FakeHosts({name: node.host() for name, node in nodes.items()})
    hosts["gpu3"] = Host(DeafBackend(tmp_path / "gpu3"))
    outcomes = judge(suite, all_nodes, hosts, only=third)

    assert {o.state for o in outcomes if o.target.startswith("gpu3")} <= {"error", "skipped"}
    # Of a check that does not apply, such as one of InfiniBand alone, no node is asked.
    whole = {o.test: o for o in outcomes if o.target == "fleet" and o.state != "skipped"}
    assert whole
    for outcome in whole.values():
        assert outcome.state == "error", outcome
        assert "gpu3: no answer" in outcome.said
        assert "gpu1" not in outcome.said


def test_odd_node_is_found_without_it(suite, fleet, nodes, tmp_path):
    deaf = replace(fleet.nodes[1], name="gpu3")
    older = nodes["gpu1"].like(tmp_path / "gpu1")
    older.put("/sys/class/dmi/id/bios_version", "1.9.0\n")
    hosts = FakeHosts({"gpu1": older.host(), "gpu2": nodes["gpu2"].host()})
    hosts["gpu3"] = Host(DeafBackend(tmp_path / "gpu3"))
    bios = frozenset({"test_uniformity.py::test_bios"})
    (outcome,) = judge(suite, replace(fleet, nodes=(*fleet.nodes, deaf)), hosts, names=bios)
    assert outcome.state == "failed"
    assert "gpu1 BIOS" in outcome.said
    assert "gpu3: no answer" in outcome.said
