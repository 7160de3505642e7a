"""What a node's supervisor is asked to start: the agent, and its plan."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from rdmaprov.acceptance.ask import bundle
from rdmaprov.acceptance.ranks import sampling
from rdmaprov.acceptance.ranks.plan import GateJob, Task

# After this without a request, the controller of a job is gone.
LEASE_S = 60
# Before the first request, a node waits for others that start: launch.START_S, the probe's grace,
# and one limit more.
STARTING_S = 130
# What NCCL says of its transports and algorithms is in these subsystems; a file for each process.
NCCL_DEBUG = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,NET,GRAPH,ENV,TUNING",
    "NCCL_DEBUG_FILE": "{directory}/nccl.%h.%p",
    # torch's flight recorder keeps the last collectives, for a hang (agent/tasks.py).
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "256",
}


def start_request(
    job: GateJob, node: str, limit_s: float, files: Mapping[str, bytes] | None = None
) -> dict[str, Any]:
    """Return what the supervisor of a node is asked to start.

    Args:
        job: of which it runs a part.
        limit_s: seconds after which it ends the ranks.
        files: further ones for the ranks' directory, by name.
    """
    debug = NCCL_DEBUG if job.backend == "nccl" else {}
    own = job.environment.get(node, {})
    own_files = {
        bundle.AGENT: bundle.agent_archive(),
        "plan.json": json.dumps(_agent_plan(job, node)).encode(),
        **(files or {}),
    }
    sample = {}
    if rails := job.sampled.get(node, ()):
        own_files[sampling.PROGRAM] = sampling.program_source()
        sample = {"sample": sampling.sample_request(rails, limit_s + LEASE_S)}
    return {
        "verb": "start",
        "argv": [job.pythons[node], "{directory}/" + bundle.AGENT, "{directory}/plan.json"],
        # One thread for each rank, as torchrun has it.
        "environment": {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **debug, **own},
        "files": {name: base64.b64encode(data).decode() for name, data in own_files.items()},
        "limit_s": limit_s,
        "lease_s": LEASE_S,
        "starting_s": STARTING_S,
        **sample,
    }


def task_file(job: GateJob, node: str, place: int, task: Task | None) -> tuple[str, bytes]:
    """Return name and content of the file by which a node's ranks get a task.

    Args:
        job: what the ranks run.
        place: the number of tasks that they got before.
        task: what to do; None to end.
    """
    data = {"end": True} if task is None else task.as_data(job.ranks_of(node))
    return f"task.{place}", json.dumps(data).encode()


def _agent_plan(job: GateJob, node: str) -> dict[str, Any]:
    """Return the agent's plan: what agent/ reads."""
    limits = job.limits
    own = job.ranks_of(node)
    return {
        "ranks": {
            "first": own.start,
            "count": len(own),
            "world": job.world,
            "address": job.address,
            "port": job.port,
        },
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
        "limits_s": {
            "import": limits.load,
            "rendezvous": limits.rendezvous,
            "connect": limits.connect,
            "step": limits.step,
        },
    }
