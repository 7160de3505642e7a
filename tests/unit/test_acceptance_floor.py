"""The floor of a run as the gate judges it: published fleets, NVLink domains, NCCL's own choice."""

from __future__ import annotations

import io
import tarfile
from typing import Any

import pytest
from tests import published
from tests.unit.accept_runs import job, say
from tests.unit.nccl_jobs import Job

from rdmaprov.acceptance import evidence, fleet_floor
from rdmaprov.acceptance.gate_site import GateSite
from rdmaprov.acceptance.job_run import JobRun, NodeRun
from rdmaprov.acceptance.node_logs import read_run
from rdmaprov.acceptance.plan import JobPlane, Task
from rdmaprov.acceptance.reach import Rendezvous

GIB = 1 << 30
MEASUREMENTS = published.measurements()
NVLINK = {"ring": "RING", "tree": "TREE", "nvlstree": "NVLS_TREE", "sharp": "COLLNET_DIRECT"}


class MadeNode:
    """A node of a site, with what the floor asks of it."""

    def __init__(self, name, rails=8, gbps=400.0, **own):
        self.name, self.rails, self._gbps, self._own = name, (), gbps, own
        self.compute_rails = tuple(range(rails))

    def link_gbps(self, _rail):
        return self._gbps

    def get(self, key):
        return self._own.get(key)


def gate_site(nodes=2, gpus=8, gpu="", racks=1, **own):
    """Return a site of nodes, of which `racks` consecutive ones share NVLink."""
    made: Any = tuple(
        MadeNode(
            f"n{number}",
            fabric_nvlink_domain=f"rack{number // racks}" if racks > 1 else "",
            **own,
        )
        for number in range(nodes)
    )
    said = {"name": gpu} if gpu else {}
    facts = {
        node.name: {"hostname": node.name, "gpus": {"gpus": [said] * gpus}, "rails": []}
        for node in made
    }
    return GateSite(made, facts, "nccl", Rendezvous("192.0.2.1", {}))


def swept(nodes, gpus, busbw_gb_s, size, algorithm="", environment=None):
    """Return a run whose all-reduce of all ranks reaches so much."""
    world = nodes * gpus
    task = Task(0, "fleet", "all rails", (tuple(range(world)),), sizes=(size,))
    made = job(
        nodes, per_node=gpus, planes=(JobPlane("all rails"),), backend="nccl", tasks=(task,),
        environment=environment or {},
    )  # fmt: skip
    ran = JobRun(made)
    us = size * 2 * (world - 1) / world / busbw_gb_s / 1e3
    times = {"median_us": us, "p99_us": us, "min_us": us, "count": 5, "dtype": "float32"}
    for name in made.nodes:
        ran.nodes[name] = NodeRun(directory="/run/x", rc=0, left=())
    for rank in range(world):
        at = {"plane": "all rails", "task": 0, "group": 0, "in_place": True}
        say(ran, rank, "row", **at, **times, bytes=size)
    if algorithm:
        ran.nodes["n0"].logs = archive(tuning(world, size, algorithm))
    return ran


def judge(site, ran, alone=0.0):
    """Return the judgement, which there is, and the findings."""
    judgement, found = floor_of(site, ran, alone)
    assert judgement is not None
    return judgement, found


def choices(ran):
    return read_run(ran).matrix.choices


def floor_of(site, ran, alone=0.0):
    return fleet_floor.judge(site, ran, choices(ran), alone)


def taken(ran):
    row = fleet_floor.fleet_row(ran)
    assert row is not None
    return fleet_floor.taken(choices(ran), row)


def tuning(world, size, algorithm):
    head = "n0:10:20 [0] NCCL INFO "
    return (
        f"{head}ncclCommInitRank comm 0x1 rank 0 nranks {world} commId 0x1 - Init COMPLETE\n"
        f"{head}AllReduce: {size} Bytes -> Algo {algorithm} proto SIMPLE "
        "channel{Lo..Hi}={0..15}\n"
    )


def archive(text):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as made:
        entry = tarfile.TarInfo("nccl.n0.10")
        entry.size = len(text)
        made.addfile(entry, io.BytesIO(text.encode()))
    return data.getvalue()


# --- published measurements ------------------------------------------------------------------


def judged(item):
    """Return what the gate finds on the fleet of a published measurement."""
    fabric, size = item.fabric, item.size_bytes
    site = gate_site(
        fabric.nodes, fabric.gpus_per_node, item.row.get("gpu", ""), fabric.nvlink_nodes,
        rails=fabric.rails, gbps=fabric.link_gbps,
    )  # fmt: skip
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


# --- the algorithm ---------------------------------------------------------------------------


def test_half_a_slot_on_two_nodes_is_found_by_the_algorithm_that_ran():
    """0.94 of a ring's ceiling by NVLSTree, whose healthy fleets reach 1.17."""
    site, half = gate_site(2, gpu="NVIDIA H100 80GB HBM3"), 0.94 * 400
    assert floor_of(site, swept(2, 8, half, 8 * GIB))[1] == []
    judgement, [finding] = judge(site, swept(2, 8, half, 8 * GIB, "NVLS_TREE"))
    assert judgement.floor.algorithm == "nvlstree"
    assert "half its width" in finding.remedy
    assert floor_of(site, swept(2, 8, 466, 8 * GIB, "NVLS_TREE"))[1] == []


def test_a_healthy_ring_of_many_nodes_passes_by_its_algorithm():
    site = gate_site(128)
    assert floor_of(site, swept(128, 8, 230, 8 * GIB, "RING"))[1] == []
    assert floor_of(site, swept(128, 8, 230, 8 * GIB, "TREE"))[1] != []


def test_an_unknown_algorithm_is_said():
    judgement, found = judge(gate_site(16), swept(16, 8, 330, 8 * GIB))
    assert found == []
    assert any("The algorithm is not known" in note for note in judgement.notes)
    known, _ = judge(gate_site(16), swept(16, 8, 330, 8 * GIB, "RING"))
    assert not any("not known" in note for note in known.notes)


@pytest.mark.parametrize("said", ["PAT", "SOMETHING_NEW"])
def test_an_algorithm_that_the_floor_does_not_have_is_unknown(said):
    ran = swept(2, 8, 380, 8 * GIB, said)
    assert taken(ran) == "auto"


def test_a_log_that_is_no_archive_leaves_the_algorithm_unknown():
    ran = swept(2, 8, 380, 8 * GIB)
    ran.nodes["n0"].logs = b"\x00not an archive Bytes -> "
    assert taken(ran) == "auto"


def test_a_group_s_row_is_not_the_fleet_s():
    ran = swept(2, 8, 380, 8 * GIB)
    pair = Task(1, "groups", "all rails", (tuple(range(8)),), sizes=(16 * GIB,))
    ran.tasks[1] = pair
    for rank in range(8):
        at = {"plane": "all rails", "task": 1, "group": 0, "in_place": True, "dtype": "float32"}
        say(ran, rank, "row", **at, bytes=16 * GIB, count=5, median_us=1.0, p99_us=1.0, min_us=1.0)
    row = fleet_floor.fleet_row(ran)
    assert row is not None
    assert row.bytes == 8 * GIB


def test_history_compares_runs_of_one_algorithm(tmp_path):
    path, site = tmp_path / "history.jsonl", gate_site(16)
    for day in range(6):
        ran = swept(16, 8, 380, 8 * GIB, "NVLS_TREE")
        evidence.compare_with_history(
            site, ran, choices(ran), path, f"2026-01-0{day + 1}T00:00:00+00:00"
        )
    when = "2026-02-01T00:00:00+00:00"
    by_ring = swept(16, 8, 340, 8 * GIB, "RING")
    assert evidence.compare_with_history(site, by_ring, choices(by_ring), path, when) == []
    by_tree = swept(16, 8, 340, 8 * GIB, "NVLS_TREE")
    [note] = evidence.compare_with_history(site, by_tree, choices(by_tree), path, when)
    assert "below the median" in note
