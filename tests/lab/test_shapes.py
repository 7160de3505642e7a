"""Labs of all shapes: their nodes are applied, start anew, are validated, broken and repaired.

And the record of a broken node has the verdicts of the node.
"""

import json

import pytest
from tests.lab.fleet import NODES, Fleet, read_report
from tests.lab.handle import LabHandle

from rdmaprov.lab.tools import in_parallel

pytestmark = [pytest.mark.lab, pytest.mark.hours]

# Nodes of two shapes in one lab, where one can reach the other's rails, and has as many.
LABS = (
    *("bond", "ifupdown,netplan", "networkmanager", "renamed", "no-ipv4", "numa", "storage"),
    *("vlan", "bookworm,trixie"),
)
# A fault, its rail, and the role that repairs it. All are there at once, as each verb takes an
# emulated node minutes; each has a role and a check of its own to find it.
FAULTS = (
    ("mtu-wrong", ("--rail", "0"), "mtu"),
    ("rdma-link-down", ("--rail", "1"), "fabric"),
    ("hugepages-short", (), "hugepages"),
)
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
MANAGEMENT_LOST = (
    "journalctl -b -u systemd-networkd -o cat | "
    "grep -E 'enp0s2: (Reconfiguring|DHCP lease lost)' || true"
)
ROLES = {role for _, _, role in FAULTS}


@pytest.fixture(scope="module", params=LABS)
def fleet(request, tmp_path_factory, at_large):
    directory = tmp_path_factory.mktemp("lab")
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
    for node in NODES:  # by DHCP where netplan has it
        assert fleet.lab.run(node, MANAGEMENT_LOST) == ""
    reboot_all(fleet.lab)
    found = fleet.judge()
    assert found["failure"] + found["error"] == []
    assert found["passed"] != []

    for node in NODES:
        for fault, rail, _ in FAULTS:
            fleet.lab.must("fault", node, fault, *rail)
    in_parallel(lambda node: find_faults_live_and_recorded(fleet, node), NODES)

    fleet.apply()
    assert fleet.pending() == {node: [] for node in NODES}
    found = fleet.judge()
    assert found["failure"] + found["error"] == []


def reboot_all(lab):
    """Reboot the nodes side by side, where `lab reboot` boots one after the other."""
    before = [lab.run(node, BOOT_ID) for node in NODES]
    for node in NODES[1:]:
        lab.run(node, "systemctl --no-block reboot")
    lab.must("reboot", NODES[0])
    lab.must("up")
    assert not set(before) & {lab.run(node, BOOT_ID) for node in NODES}


def find_faults_live_and_recorded(fleet, node, roles=ROLES):
    """Have plan and validate find the faults of a node, by role, and the same in its record."""
    site, alone = [str(fleet.site)], ["--limit", node]
    record = fleet.directory / f"{node}.record.json.gz"
    code, said = fleet.execute("record", *site, *alone, "--output", str(record))
    assert code == 0, said
    changes = _plan(fleet, node, *site, *alone)
    assert set(changes) >= roles
    assert _plan(fleet, node, "--record", str(record)) == changes
    found = _validate(fleet, node, *site, *alone)
    assert {f"test_{role}" for role in roles} <= {
        name.partition(".py::")[0] for name in found["failure"]
    }
    assert _validate(fleet, node, "--record", str(record)) == found


def _plan(fleet, node, *words):
    file = fleet.directory / f"{node}.plan.json"
    code, said = fleet.execute("plan", *words, "--json", str(file))
    assert code == 5, said
    return list(json.loads(file.read_text())["nodes"][node]["changes"])


def _validate(fleet, node, *words):
    report = fleet.directory / f"{node}.junit.xml"
    code, said = fleet.execute("validate", *words, *fleet.patient(), f"--junitxml={report}")
    assert code == 1, said
    found = read_report(report)
    return {state: sorted(each.partition(" ")[0] for each in found[state]) for state in found}
