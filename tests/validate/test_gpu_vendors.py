"""The node's GPUs are counted whoever made them."""

from __future__ import annotations

import pytest
from tests.validate.runner import FakeHosts, judge

DEVICES = "/sys/bus/pci/devices"
TEST = frozenset({"test_fabric.py::test_node_has_its_gpus"})


# Class codes of the PCI Code and ID Assignment Specification 1.15: MI300X, MI200, a GPU with ports.
@pytest.mark.parametrize("kind", ["0x120000", "0x038000", "0x030000"])
@pytest.mark.parametrize(("vendor", "state"), [("0x1002", "passed"), ("0x8086", "failed")])
def test_gpu_of_another_vendor(suite, fleet, nodes, tmp_path, kind, vendor, state):
    changed = nodes["gpu1"].like(tmp_path / "gpu1")
    there = changed.root.joinpath(DEVICES.lstrip("/"))
    gpus = [path for path in there.iterdir() if (path / "class").read_text() == "0x030200\n"]
    assert gpus
    for gpu in gpus:
        changed.put(f"{DEVICES}/{gpu.name}/vendor", f"{vendor}\n")
        changed.put(f"{DEVICES}/{gpu.name}/class", f"{kind}\n")
    hosts = FakeHosts({"gpu1": changed.host(), "gpu2": nodes["gpu2"].host()})
    outcomes = judge(suite, fleet, hosts, only=fleet.nodes[0], names=TEST)
    assert [each.state for each in outcomes] == [state]


def test_virtual_functions_of_the_host_s_gpus_are_none(suite, fleet, nodes, tmp_path):
    changed = nodes["gpu1"].like(tmp_path / "gpu1")
    there = changed.root.joinpath(DEVICES.lstrip("/"))
    gpus = [path for path in there.iterdir() if (path / "vendor").read_text() == "0x10de\n"]
    changed.put(f"{DEVICES}/{gpus[0].name}/physfn/vendor", "0x10de\n")
    hosts = FakeHosts({"gpu1": changed.host(), "gpu2": nodes["gpu2"].host()})
    (outcome,) = judge(suite, fleet, hosts, only=fleet.nodes[0], names=TEST)
    assert outcome.state == "failed"
