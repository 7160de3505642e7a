"""Made-up nodes whose all-reduce reaches so much, by an algorithm that a log names."""

from typing import Any

from tests.unit.helpers.accept_runs import job, say
from tests.unit.helpers.nccl_runs import packed

from rdmaprov.acceptance.evidence import floor as fleet_floor
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.preflight.reach import Rendezvous
from rdmaprov.acceptance.ranks.nccl_logs import read_run
from rdmaprov.acceptance.ranks.plan import JobPlane, Task
from rdmaprov.acceptance.ranks.run import JobRun, NodeRun

GIB = 1 << 30


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
            f"n{number}", fabric_nvlink_domain=f"rack{number // racks}" if racks > 1 else "", **own
        )
        for number in range(nodes)
    )
    said = {"name": gpu} if gpu else {}
    facts = {
        node.name: {"hostname": node.name, "gpus": {"gpus": [said] * gpus}, "rails": []}
        for node in made
    }
    return GateSite(made, facts, "nccl", Rendezvous("192.0.2.1", {}))


def swept(nodes, gpus, busbw_gb_s, size, algorithm="", environment=None, collective="all_reduce"):
    """Return a run whose all-reduce, or another collective, of all ranks reaches so much."""
    world = nodes * gpus
    task = Task(0, "fleet", "all rails", (tuple(range(world)),), collective, sizes=(size,))
    made = job(
        nodes,
        per_node=gpus,
        planes=(JobPlane("all rails"),),
        backend="nccl",
        tasks=(task,),
        environment=environment or {},
    )
    ran = JobRun(made)
    rounds = 2 if collective == "all_reduce" else 1
    us = size * rounds * (world - 1) / world / busbw_gb_s / 1e3
    times = {"median_us": us, "p99_us": us, "min_us": us, "count": 5, "dtype": "float32"}
    for name in made.nodes:
        ran.nodes[name] = NodeRun(directory="/run/x", rc=0, left=())
    for rank in range(world):
        at = {"plane": "all rails", "task": 0, "group": 0, "in_place": True}
        say(ran, rank, "row", **at, **times, bytes=size)
    if algorithm:
        ran.nodes["n0"].logs = packed(tuning(world, size, algorithm))
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


def tuning(world, size, algorithm):
    head = "n0:10:20 [0] NCCL INFO "
    return (
        f"{head}ncclCommInitRank comm 0x1 rank 0 nranks {world} commId 0x1 - Init COMPLETE\n"
        f"{head}AllReduce: {size} Bytes -> Algo {algorithm} proto SIMPLE "
        "channel{Lo..Hi}={0..15}\n"
    )
