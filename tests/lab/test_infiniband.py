"""Nodes of the shape infiniband, with the variables of inventory/ib: from the factory to validate.

Their ports are files (docs/stand-ins.md); all else of the nodes is real. The fabric itself is on
ibsim: tests/cli/test_lab_subnet.py and tests/roles/test_subnet_manager_ibsim.py.
"""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from tests.lab.fleet import NODES, Fleet
from tests.lab.handle import LabHandle
from tests.lab.test_shapes import find_faults_live_and_recorded, reboot_all

from rdmaprov.lab.tools import in_parallel
from rdmaprov.resources import data_dir

pytestmark = [pytest.mark.lab, pytest.mark.hours]

PORTS = "/run/rdmaprov-lab/infiniband"
# A fault, its rail, and the role that repairs it.
FAULTS = (
    ("hugepages-short", (), "hugepages"),
    ("memlock-limited", (), "limits"),
    ("nccl-conf-stale", (), "nccl"),
)
# What a subnet manager or a cable does to a port: file, what it then says, and the check's name.
OF_PORT = (
    ("lid", "0x0", "test_port_has_a_lid"),
    ("sm_lid", "0x0", "test_port_knows_its_subnet_manager"),
    ("pkeys/0", "0x0001", "test_partition_keys"),
    ("rate", "100 Gb/sec (2X HDR)", "test_lanes_and_speed"),
    ("state", "2: INIT", "test_port_is_active"),
)
# Of inventory/ib: what says how the fabric is, and not what the hardware of its nodes is.
OF_FABRIC = (
    *("fabric_kind", "fabric_partition_keys", "fabric_service_level", "fabric_adaptive_routing"),
    *("fabric_ipoib", "fabric_sharp"),
)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, at_large):
    """Provide two factory nodes, whose site has the fabric of inventory/ib."""
    directory = tmp_path_factory.mktemp("ib")
    at_large(directory / "lab")
    lab = LabHandle(directory / "lab", directory / "lab-site")
    try:
        lab.must("up", "--shape", "infiniband", "--site", str(lab.site))
        made = Fleet(lab, directory / "fleet")
        hosts = made.site / "hosts.yml"
        site = yaml.safe_load(hosts.read_text())
        for node in site["lab"]["hosts"].values():
            node.update(of_reference_site())
        hosts.write_text(yaml.safe_dump(site, sort_keys=False))
        yield made
    finally:
        lab.must("down")


def of_reference_site() -> Mapping[str, Any]:
    variables = yaml.safe_load((data_dir("inventory") / "ib/group_vars/all.yml").read_text())
    return {name: variables[name] for name in OF_FABRIC}


def test_nodes_are_provisioned_and_stay_so(fleet):
    """After a reboot too; three faults are found, live and in the record, and repaired."""
    assert fleet.run("check") == (0, "")
    fleet.apply()
    assert fleet.pending() == {node: [] for node in NODES}
    reboot_all(fleet.lab)
    healthy(fleet)
    for node in NODES:
        for fault, rail, _ in FAULTS:
            fleet.lab.must("fault", node, fault, *rail)
    roles = {role for _, _, role in FAULTS}
    in_parallel(lambda node: find_faults_live_and_recorded(fleet, node, roles), NODES)
    fleet.apply()
    assert fleet.pending() == {node: [] for node in NODES}
    found = healthy(fleet)
    for _, _, check in OF_PORT:
        assert any(check in name for name in found["passed"]), check


def test_what_subnet_manager_and_cable_do_to_a_port_is_named(fleet):
    for file, value, _ in OF_PORT:
        fleet.lab.run("node1", f"echo '{value}' > {PORTS}/mlx5_1/{file}")
    found = fleet.judge()
    for _, value, check in OF_PORT:
        (failure,) = [name for name in found["failure"] if check in name]
        assert "[node1-rail1]" in failure, (check, value)
    assert {name for name in found["failure"] if "node2" in name.partition(" ")[0]} == set()


def healthy(fleet: Fleet) -> dict[str, list[str]]:
    found = fleet.judge()
    assert found["failure"] + found["error"] == []
    return found
