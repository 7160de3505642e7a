"""What a node's supervisor is asked to start: the agent, its plan, and the sampler of its rails."""

import base64
import io
import json
import shlex
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rdmaprov.acceptance.ranks.plan import GateJob, Task
from rdmaprov.acceptance.samples.packed import MOST_PACKED
from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.errors import NodeError
from rdmaprov.probe.script import node_script

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
_HERE = Path(__file__).parents[1]
AGENT = "agent.pyz"
EVERY_S = 0.1
SAMPLER = "sampler.py"
_SAMPLER_SOURCE = _HERE / "node" / SAMPLER
_FETCH_S = 60
# A tick of a long run takes 0.8 s; one that reads a device that does not answer takes longer.
_WAIT_TENTHS = 30
# Files of 64 nodes, of half a MiB each, are in memory at once.
_AT_ONCE = 64


def start_request(
    job: GateJob, node: str, limit_s: float, files: Mapping[str, bytes] | None = None
) -> dict[str, Any]:
    """Return what the supervisor of a node is asked to start.

    Args:
        limit_s: seconds after which it ends the ranks.
        files: further ones for the ranks' directory, by name.
    """
    debug = NCCL_DEBUG if job.backend == "nccl" else {}
    own = job.environment.get(node, {})
    own_files = {
        AGENT: agent_archive(),
        "plan.json": json.dumps(_agent_plan(job, node)).encode(),
        **(files or {}),
    }
    sample = {}
    if rails := job.sampled.get(node, ()):
        own_files[SAMPLER] = sampler_source()
        sample = {"sample": sample_request(rails, limit_s + LEASE_S)}
    return {
        "verb": "start",
        "argv": [job.pythons[node], "{directory}/" + AGENT, "{directory}/plan.json"],
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


def agent_archive() -> bytes:
    """Return the agent as one file that Python runs, the same bytes for the same sources."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((_HERE / "agent").glob("*.py")):
            name = path.name if path.name == "__main__.py" else f"agent/{path.name}"
            archive.writestr(zipfile.ZipInfo(name), path.read_bytes())
    return packed.getvalue()


def sample_request(rails: Sequence[dict[str, str]], limit_s: float) -> dict[str, Any]:
    """Return what a start asks of the sampler.

    Args:
        rails: how the site names each, for programs on the node.
        limit_s: seconds after which it ends.
    """
    return {"rails": list(rails), "every_s": EVERY_S, "limit_s": limit_s}


def sampler_source() -> bytes:
    """Return the sampler, which needs nothing but Python on the node."""
    return node_script(_SAMPLER_SOURCE)


def fetch_commands(directories: Mapping[str, str]) -> Iterator[dict[str, Command]]:
    """Yield commands that end the samplers of some nodes and print their files, in base64.

    Args:
        directories: where each node's ranks run.
    """
    names = list(directories)
    for first in range(0, len(names), _AT_ONCE):
        yield {name: _fetch_command(directories[name]) for name in names[first : first + _AT_ONCE]}


def _fetch_command(directory: str) -> Command:
    # It ends at its next tick. One that never began leaves no file, and is not waited for long.
    text = (
        f"cd {shlex.quote(directory)} && [ -f {SAMPLER} ] && touch samples.stop && "
        f"n=0; while [ ! -f samples.gz ] && [ $n -lt {_WAIT_TENTHS} ]; do sleep 0.1; n=$((n+1)); "
        f"done; head -c {MOST_PACKED + 1} samples.gz | base64 -w0"
    )
    return Command(text, _FETCH_S)


def samples_from(answer: Answer | NodeError) -> bytes:
    """Return the file that a node printed; empty if there is none."""
    if not isinstance(answer, Answer) or answer.rc != 0:
        return b""
    try:
        return base64.b64decode(answer.out, validate=True)
    except ValueError:
        return b""
