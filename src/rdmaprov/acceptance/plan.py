"""What each node is to do in an all-reduce: torchrun's arguments and the agent's plan."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rdmaprov.acceptance import bundle

Pair = tuple[int, int]
DTYPES = ("float32", "bfloat16", "float16", "int32")
# After this without a request, the controller of a job is gone.
LEASE_S = 60
# What NCCL says of its transports is in these subsystems; a file for each process.
NCCL_DEBUG = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,NET,GRAPH,ENV",
    "NCCL_DEBUG_FILE": "{directory}/nccl.%h.%p",
}


@dataclass(frozen=True)
class JobLimits:
    """How long the parts of a job may take, in seconds.

    Args:
        load: importing torch, twice; minutes where many nodes read it from one file server.
        rendezvous: until all ranks have joined, from when the first one is ready.
        connect: making the groups of a plane.
        step: one collective.
        plane: all sizes of a plane; what comes later is not measured.

    """

    load: float = 600
    rendezvous: float = 120
    connect: float = 60
    step: float = 60
    plane: float = 180

    def total_s(self, planes: int) -> float:
        """Return how long a job may take that keeps to all of them."""
        return self.load + self.rendezvous + planes * (self.connect + self.plane + 5 * self.step)


@dataclass(frozen=True)
class JobPlane:
    """A part of the fabric that is proven by itself.

    Args:
        name: as it is shown, such as `rail 0`.
        rail: its number, None for all rails together.
        netdevs: its network device, by node; NCCL finds its own.
        addresses: its address, by node.

    """

    name: str
    rail: int | None = None
    netdevs: Mapping[str, str] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GateJob:
    """Ranks that run all-reduces together.

    Args:
        backend: `nccl` or `gloo`.
        nodes: in the order of their ranks.
        per_node: ranks of each node.
        pythons: the interpreter with torch, by node.
        address: of rank 0's rendezvous, and `port`.
        control: the network device that leads there, by node.
        planes: what is proven, one after the other.
        sizes: bytes of the messages.
        rounds: pairs of nodes, by number, that exchange messages; those of a round side by side.
        limits: of time.
        repeat: all-reduces that are timed for each size: at least, at most, and for how long.
        environment: further variables of the ranks, by node.

    """

    backend: str
    nodes: tuple[str, ...]
    per_node: int
    pythons: Mapping[str, str]
    address: str
    port: int
    control: Mapping[str, str]
    planes: tuple[JobPlane, ...]
    sizes: tuple[int, ...]
    rounds: tuple[tuple[Pair, ...], ...] = ()
    dtypes: tuple[str, ...] = DTYPES
    limits: JobLimits = JobLimits()
    repeat: tuple[int, int, float] = (5, 50, 0.5)
    environment: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def world(self) -> int:
        """Return the number of ranks."""
        return len(self.nodes) * self.per_node

    def node_of(self, rank: int) -> str:
        """Return the node that a rank runs on."""
        return self.nodes[rank // self.per_node]

    def ranks_of(self, node: str) -> range:
        """Return the ranks of a node."""
        first = self.nodes.index(node) * self.per_node
        return range(first, first + self.per_node)

    def limit_s(self) -> float:
        """Return how long the whole job may take."""
        return self.limits.total_s(len(self.planes))


def start_request(job: GateJob, node: str, limit_s: float) -> dict[str, Any]:
    """Return what the supervisor of a node is asked to start."""
    debug = NCCL_DEBUG if job.backend == "nccl" else {}
    own = job.environment.get(node, {})
    files = {
        bundle.AGENT: bundle.agent_archive(),
        "plan.json": json.dumps(_agent_plan(job, node)).encode(),
    }
    return {
        "verb": "start",
        "argv": _torchrun_command(job, node),
        # One thread for each rank, as torchrun itself has it, without its warning.
        "environment": {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **debug, **own},
        "files": {name: base64.b64encode(data).decode() for name, data in files.items()},
        "limit_s": limit_s,
        "lease_s": LEASE_S,
    }


def _torchrun_command(job: GateJob, node: str) -> list[str]:
    """Return torchrun's command line: its static rendezvous, where rank follows from the order."""
    return [
        job.pythons[node], "-m", "torch.distributed.run",
        f"--nnodes={len(job.nodes)}", f"--node-rank={job.nodes.index(node)}",
        f"--nproc-per-node={job.per_node}", "--max-restarts=0",
        f"--master-addr={job.address}", f"--master-port={job.port}",
        f"--rdzv-conf=timeout={int(job.limits.load + job.limits.rendezvous)}",
        "{directory}/" + bundle.AGENT, "{directory}/plan.json",
    ]  # fmt: skip


def _agent_plan(job: GateJob, node: str) -> dict[str, Any]:
    """Return the agent's plan: what agent/ reads."""
    limits = job.limits
    many = job.per_node
    return {
        "backend": job.backend,
        "control": job.control[node],
        "planes": [
            {
                "name": plane.name,
                "netdev": plane.netdevs.get(node, ""),
                "address": plane.addresses.get(node, ""),
            }
            for plane in job.planes
        ],
        "sizes": job.sizes,
        "dtypes": job.dtypes,
        "rounds": [[(one * many, other * many) for one, other in pairs] for pairs in job.rounds],
        "repeat": job.repeat,
        "plane_s": limits.plane,
        "blame_most": 64,
        "limits_s": {
            "import": limits.load,
            "rendezvous": limits.rendezvous,
            "connect": limits.connect,
            "step": limits.step,
        },
    }
