"""A lab of each shape: its nodes are applied, start anew, are validated, broken and repaired."""

from __future__ import annotations

import pytest
from tests.lab.fleet import NODES, Fleet
from tests.lab.handle import LabHandle

from rdmaprov.lab import shapes

pytestmark = [pytest.mark.lab, pytest.mark.long]

# A fault, and the role that repairs it.
FAULTS = (("mtu-wrong", "mtu"), ("rdma-link-down", "fabric"), ("hugepages-short", "hugepages"))
NODE = "node1"


@pytest.fixture(scope="module", params=list(shapes.catalogue()))
def fleet(request, tmp_path_factory, at_large):
    """Provide the factory nodes of a lab of its own, of one shape."""
    directory = tmp_path_factory.mktemp(request.param)
    at_large(directory / "lab")
    lab = LabHandle(directory / "lab", directory / "lab-site")
    try:
        lab.must("up", "--shape", request.param, "--site", str(lab.site))
        yield Fleet(lab, directory / "fleet")
    finally:
        lab.must("down")


def test_shape_is_provisioned_and_stays_so(fleet):
    """After a reboot too; and three faults are each found, and repaired by the next apply."""
    assert fleet.run("check") == (0, "")
    fleet.apply()
    assert fleet.pending() == {node: [] for node in NODES}
    for node in NODES:
        fleet.lab.must("reboot", node)
    assert fleet.pending() == {node: [] for node in NODES}
    found = fleet.judge()
    assert found["failure"] + found["error"] == []
    assert found["passed"] != []
    for fault, role in FAULTS:
        fleet.lab.must("fault", NODE, fault)
        assert role in fleet.pending()[NODE]
        assert f"test_{role}" in {each.partition(".py::")[0] for each in fleet.judge()["failure"]}
        fleet.apply("--limit", NODE)
        assert fleet.pending() == {node: [] for node in NODES}
    found = fleet.judge()
    assert found["failure"] + found["error"] == []
