"""InfiniBand nodes that are no fault: without IPoIB, and beside other partitions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.validate.runner import FakeHosts, judge

NAMES = frozenset(
    {
        "test_fabric.py::test_rail_is_up",
        "test_mtu.py::test_mtu_running",
        "test_mtu.py::test_mtu_after_reboot",
        "test_infiniband.py::test_partition_keys",
    }
)


@pytest.fixture
def changed(infiniband_nodes, tmp_path):
    return infiniband_nodes["gpu1"].like(tmp_path / "gpu1")


def judged(suite, fleet, nodes, changed, **values):
    node = replace(fleet.nodes[0], values={**fleet.nodes[0].values, **values})
    hosts = FakeHosts({"gpu1": changed.host(), "gpu2": nodes["gpu2"].host()})
    return {(o.test, o.state) for o in judge(suite, fleet, hosts, only=node, names=NAMES)}


def test_ipoib_that_is_not_used_is_not_judged(suite, infiniband_fleet, infiniband_nodes, changed):
    """Its devices are down, and have the MTU of the port: nobody brought them up."""
    for netdev in ("ens1", "ens2"):
        changed.put(f"/sys/class/net/{netdev}/flags", "0x1002\n")
        changed.put(f"/sys/class/net/{netdev}/mtu", "4092\n")
        changed.remove(f"/etc/systemd/network/20-rdmaprov-{netdev}.network.d")
    found = judged(suite, infiniband_fleet, infiniband_nodes, changed, fabric_ipoib=False)
    assert {state for test, state in found if "partition" not in test} == {"skipped"}
    found = judged(suite, infiniband_fleet, infiniband_nodes, changed)
    assert {state for test, state in found if "partition" not in test} == {"failed"}


def test_other_partitions_of_a_port_are_no_fault(
    suite, infiniband_fleet, infiniband_nodes, changed
):
    changed.put("/sys/class/infiniband/mlx5_0/ports/1/pkeys/2", "0x8007\n")
    found = judged(suite, infiniband_fleet, infiniband_nodes, changed)
    assert ("test_infiniband.py::test_partition_keys", "passed") in found
    assert {state for _, state in found} == {"passed"}
