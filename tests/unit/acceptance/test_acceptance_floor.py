"""The floor of a run as the gate judges it: published fleets, NVLink domains."""

from __future__ import annotations

import pytest
from tests import published
from tests.unit.helpers.nccl_jobs import Job
from tests.unit.helpers.swept_fleets import GIB, archive, floor_of, gate_site, judge, swept

from rdmaprov.acceptance.evidence import judge as evidence
from rdmaprov.acceptance.ranks.nccl_logs import read_run

MEASUREMENTS = published.measurements()
NVLINK = {"ring": "RING", "tree": "TREE", "nvlstree": "NVLS_TREE", "sharp": "COLLNET_DIRECT"}


# --- published measurements ------------------------------------------------------------------


def judged(item):
    """Return what the gate finds on the fleet of a published measurement."""
    fabric, size = item.fabric, item.size_bytes
    site = gate_site(
        fabric.nodes,
        fabric.gpus_per_node,
        item.row.get("gpu", ""),
        fabric.nvlink_nodes,
        rails=fabric.rails,
        gbps=fabric.link_gbps,
    )
    said = NVLINK[item.algorithm] if item.algorithm != "auto" else ""
    return floor_of(site, swept(fabric.nodes, fabric.gpus_per_node, item.busbw, size, said))[1]


@pytest.mark.parametrize(
    "item", [item for item in MEASUREMENTS if item.healthy], ids=lambda item: item.name
)
def test_a_published_healthy_fleet_is_not_refused_by_the_gate(item):
    proven = [finding for finding in judged(item) if finding.proven]
    assert proven == []
    assert item.size_bytes < GIB or judged(item) == []


@pytest.mark.parametrize(
    "item",
    [m for m in MEASUREMENTS if m.told_by == "floor" and m.size_bytes >= GIB],
    ids=lambda item: item.name,
)
def test_a_published_slow_fleet_is_refused_by_the_gate(item):
    [finding] = judged(item)
    assert (finding.proven, finding.level) == (True, "")  # it names nobody, so isolation follows


# --- inside a node, NVLink domains -----------------------------------------------------------


@pytest.mark.parametrize("alone", [0.0, 215.0], ids=["by name", "measured"])
def test_a_fleet_of_h800_is_limited_by_its_nvlink(alone):
    run = swept(16, 8, 160, 8 * GIB)
    named = gate_site(16, gpu="NVIDIA H800")
    assert floor_of(named, run, alone)[1] == []
    assert floor_of(gate_site(16, gpu="NVIDIA H200"), run)[1] != []


def test_what_a_node_measured_alone_counts_before_its_gpu_s_name():
    """A node of H200 that reaches 28 GB/s alone is a finding of its own, and not the fleet's."""
    run = swept(4, 8, 24, 8 * GIB)
    site = gate_site(4, gpu="NVIDIA H200")
    assert floor_of(site, run, 28.0)[1] == []


def test_one_rack_by_nvlink_and_its_rails_are_two_planes():
    rack = gate_site(18, 4, "NVIDIA GB200", racks=18, rails=4)
    assert floor_of(rack, swept(18, 4, 820, 8 * GIB))[1] == []
    rails = {name: {"NCCL_MNNVL_ENABLE": "0"} for name in (node.name for node in rack.nodes)}
    slow = swept(18, 4, 90, 8 * GIB, environment=rails)
    judgement, [finding] = judge(rack, slow)
    assert judgement.floor.ceiling_gb_s == 200
    assert finding.proven
    assert floor_of(rack, swept(18, 4, 170, 8 * GIB, environment=rails))[1] == []


def test_one_rack_whose_nvlink_is_not_known_is_not_verified():
    judgement, [finding] = floor_of(gate_site(18, 4, racks=18, rails=4), swept(18, 4, 820, 8 * GIB))
    assert (judgement, finding.proven) == (None, False)
    assert "one NVLink domain uses no rail" in finding.what


@pytest.mark.parametrize("racks", [2, 1], ids=["one NVLink domain", "no NVLink domain"])
def test_nodes_of_one_domain_may_keep_all_channels_in_it(racks):
    """To NCCL they are one node: two hosts, `nNodes 1`, and no channel through a rail."""
    site = gate_site(2, 2, racks=racks, fabric_kind="roce")
    lines, made = Job(nodes=1, gpus=4).lines(), swept(2, 2, 100, GIB)
    for name, pids in (("n0", ("100", "101")), ("n1", ("102", "103"))):
        own = [line.replace("node0:", f"{name}:") for line in lines if line.split(":")[1] in pids]
        made.nodes[name].logs = archive("\n".join([*own, ""]))
        site.facts[name]["rails"].extend([{"rdma": f"mlx5_{rail}"} for rail in range(8)])
    found = list(evidence.judge_transports(site, read_run(made)))
    assert (found == []) == (racks > 1)
