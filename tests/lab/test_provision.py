"""Factory nodes become what the lab's site says, whatever cuts the way there, and stay so."""

from __future__ import annotations

import json
import os
import re
import signal

import jsonschema
import pytest
from plugins.module_utils.roles import ORDER
from tests.lab.fleet import NODES, SCHEMA, leftovers_of_accept
from tests.lab.play import DISK_FULL
from tests.site_runs import TIMEOUT_S

from lab import demo
from rdmaprov.exit_codes import ExitCode
from rdmaprov.resources import data_dir

pytestmark = pytest.mark.lab

SUITE = data_dir("validate")
# Those that a factory node lacks something of, in their order. The driver is the kernel's own,
# there is no GPU, and the site names no subnet manager: these have nothing to do.
WITHOUT = ("ofed", "peermem", "subnet_manager")
ROLES = tuple(role for role in ORDER if role not in WITHOUT)
# Why a test may have nothing to judge on a node of the lab: no card, or the site does not say.
ACCEPTED = re.compile(
    r"virtio|Soft-RoCE|not open|no congestion control|vendor's driver"
    r"|inbox|the site |peermem_mode: off|torch_runtime_kind|keep|RoCE: |is empty|: \{\}"
    r"|no processors|does not scale CPU frequencies|no NUMA balancing|NVIDIA NIC|names no GPU"
    r"|not installed|on the wire|no IOMMU|no selected node|nothing translates|fabric_"
    r"|no NVIDIA GPU|TuneD does not run|no GPU has|: \[\]|which test_iommu|PFC storm prevention"
    r"|no LLDP daemon|know the neighbours|without a plan|subnet_manager_hosts"
)


@pytest.fixture
def provisioned(lab, fleet):
    """Provide the fleet, with its nodes as its site says."""
    lab.begin_from("provisioned", fleet.apply)
    return fleet


def start_until_role(fleet, role, *words):
    """Return an apply that has begun a role."""
    return fleet.start_until("apply", "ansible.log", f"TASK [rdmaprov.node.{role} ", *words)


@pytest.mark.long
def test_factory_nodes_fail_the_gate_and_nothing_is_an_error(fleet):
    found = fleet.judge()
    assert found["error"] == []
    failed = {each.partition(".py::")[0] for each in found["failure"]}
    # What torch_runtime proves is on record on the node alone.
    assert {f"test_{role}" for role in ROLES if role != "torch_runtime"} <= failed
    assert fleet.pending() == {node: list(ROLES) for node in NODES}


@pytest.mark.long
def test_every_cut_is_said_and_leaves_what_the_next_run_mends(lab, fleet):
    """The controller is killed, then the node restarts, then its disk is full."""
    one = ("--limit", "node1")
    killed = start_until_role(fleet, "fabric", "--roles", "fabric", *one)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()

    restarted = start_until_role(fleet, "hugepages", "--roles", "hugepages", *one)
    lab.must("reboot", "node1")
    said, _ = restarted.communicate(timeout=TIMEOUT_S)
    assert restarted.returncode in (1, 4), said
    assert "node1" in said

    lab.must("fault", "node1", "disk-full")
    code, said = fleet.run("apply", *one)
    assert code == 1, said
    assert "node1" in said
    assert DISK_FULL.search(said)
    lab.must("heal", "node1")

    fleet.apply(*one)
    assert fleet.pending() == {"node1": [], "node2": list(ROLES)}


def test_every_step_of_the_demonstration_ends_as_it_must(lab, fleet, capfd):
    before = set(runs_of(fleet))
    steps = demo.steps(str(fleet.site), str(SUITE), ["--dir", str(lab.directory)])
    assert demo.run(steps, fleet.directory) == ExitCode.OK, capfd.readouterr().out
    said = capfd.readouterr().out
    assert "2 nodes: 2 pending" in said
    assert "2 nodes: 2 changed" in said
    broken = (
        f"{demo.NODE} {lab.netdev(demo.NODE, 0)}: running: PFC is on for priority 4, expected 3"
    )
    assert broken in said
    assert "[test_pfc_only_on_lossless_priority]" in said
    assert "2 nodes: 1 unchanged (probed), 1 changed" in said
    assert "Not verified: GPU bandwidth" in said
    runs = [run for run in runs_of(fleet) if run not in before]
    ended = [run for run in runs if (run / "results.json").exists()]
    assert [run for run in ended if not (run / "report.html").exists()] == []
    validated = min(run for run in ended if run.name.endswith("-validate"))
    checks = json.loads((validated / "results.json").read_text())["checks"]
    skipped = [check["message"] for check in checks if check["outcome"] == "skipped"]
    assert [reason for reason in skipped if not ACCEPTED.search(reason)] == []
    assert leftovers_of_accept(lab) == ["", ""]
    (accepted,) = (run for run in ended if run.name.endswith("-accept"))
    judge_accepted(json.loads((accepted / "results.json").read_text()))
    lab.keep("provisioned")


def runs_of(fleet):
    directory = fleet.directory / "runs"
    return [run for run in directory.iterdir() if run.is_dir()] if directory.exists() else []


def judge_accepted(results):
    """Judge what the acceptance gate says of healthy nodes."""
    jsonschema.validate(results, SCHEMA)
    assert (results["verdict"], results["world_size"]) == ("ok", 2)
    assert [plane["name"] for plane in results["planes"]] == ["rail 0", "rail 1"]
    for plane in results["planes"]:
        assert plane["sizes_checked"] == [1 << power for power in range(16, 20)]
        assert {row["bytes"] for row in plane["rows"]} == set(plane["sizes_checked"])
        assert {(pair["from"], pair["to"]) for pair in plane["pairs"]} == {NODES, NODES[::-1]}


def test_second_run_changes_nothing_and_the_probe_proves_it(provisioned):
    assert "2 nodes: 2 unchanged" in provisioned.apply()
    assert "2 nodes: 2 unchanged (probed)" in provisioned.apply("--drifted")


@pytest.mark.long
def test_all_is_right_after_a_boot_with_nothing_run(lab, provisioned):
    """One node's: the other one is set up alike, and a boot takes a minute."""
    lab.must("reboot", "node1")
    assert provisioned.pending() == {node: [] for node in NODES}
    for rail in (0, 1):
        lab.run("node1", f"ping -q -c 2 -W 5 -M do -s 4172 198.18.{rail}.2")
    # Without a card nothing loads it.
    prof_sel = "modprobe mlx5_core; cat /sys/module/mlx5_core/parameters/prof_sel"
    assert lab.run("node1", prof_sel).strip() == "1"


FAULTS = {
    "mtu-wrong": "mtu",
    "hugepages-short": "hugepages",
    "memlock-limited": "limits",
    "module-parameter-not-configured": "mlx5",
    "rail-addresses-swapped": "fabric",
    "pfc-wrong-priority": "roce_qos",
    "numa-balancing-on": "pcie",
    "nccl-conf-stale": "nccl",
}


@pytest.mark.long
def test_faults_are_their_roles_and_the_node_that_has_them_alone_is_repaired(lab, provisioned):
    fleet = provisioned
    lab.run("node1", "modprobe mlx5_core")  # as a card would have it
    for fault in FAULTS:
        lab.must("fault", "node1", fault)
    broken = sorted(FAULTS.values(), key=ROLES.index)
    assert fleet.pending() == {"node1": broken, "node2": []}
    assert "2 nodes: 1 unchanged (probed), 1 changed" in fleet.apply("--drifted")
    assert fleet.pending() == {node: [] for node in NODES}
    lab.must("heal", "node1")
    assert "2 nodes: 2 unchanged (probed)" in fleet.apply("--drifted")
