"""Ranks on this machine, run by the acceptance's own launcher, supervisor and agent.

Each node is a shell here, with one rank. NCCL refuses two ranks on one GPU of one host, so each
node is a host of its own to it (NCCL_HOSTID): the ranks share the GPU and talk by sockets over lo.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.rank_hook import RANK_HOOK, hooked_python
from tests.tables import cases
from tests.unit.helpers.local_node import here

from rdmaprov.acceptance.ranks.events import RankEvent
from rdmaprov.acceptance.ranks.launch import Launcher
from rdmaprov.acceptance.ranks.nccl_logs import RunLogs, read_run
from rdmaprov.acceptance.ranks.plan import GateJob, JobLimits, JobPlane, Task
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.probe.probe import Probe

PYTHON = "RDMAPROV_TORCH_PYTHON"
LOGS = "RDMAPROV_GPU_LOGS"
PLANE, PORT = "here", 29471
# After it a rank that hangs is ended. gloo's ranks share the processors with whatever runs there.
STEP_S = {"nccl": 20.0, "gloo": 60.0}
SHARED_GPU = {"NCCL_SOCKET_IFNAME": "=lo", "NCCL_IB_DISABLE": "1", "CUDA_VISIBLE_DEVICES": "0"}
# Bodies of the start-up hook of one rank: what it gives to collectives, or gets of them, is wrong.
SENDS_WRONG = cases(__file__, "sends_wrong")
GETS_WRONG = cases(__file__, "gets_wrong")
# More than any address space has: by itself, so that ranks that share the GPU keep their memory.
TAKES_ALL_MEMORY = cases(__file__, "takes_all_memory")


@cache
def python_with_torch() -> str:
    named = os.environ.get(PYTHON, sys.executable)
    asked = [named, "-c", "import importlib.util as i, sys; sys.exit(not i.find_spec('torch'))"]
    try:
        return named if subprocess.run(asked, check=False).returncode == 0 else ""
    except OSError:
        return ""


def logs_directory() -> Path:
    return Path(os.environ.get(LOGS) or Path(__file__).parents[2] / "runs" / "gpu")


@dataclass
class Ranks:
    """Ranks of a backend on this machine; what they write is kept by the name of the test."""

    backend: str
    test: str
    processes: dict[int, int] = field(default_factory=dict)
    _pythons: dict[str, str] = field(default_factory=dict)

    def corrupt(self, rank: int, body: str) -> None:
        """Have one rank do wrong, as the body of a start-up hook says."""
        directory = logs_directory() / self.test / "hook"
        python = hooked_python(directory, python_with_torch(), RANK_HOOK + body)
        self._pythons[f"n{rank}"] = str(python)

    def job(self, count: int, *tasks: Task) -> GateJob:
        """Return a job of so many nodes, which perform these tasks."""
        names = tuple(f"n{number}" for number in range(count))
        plane = JobPlane(PLANE, None, dict.fromkeys(names, "lo"), dict.fromkeys(names, "127.0.0.1"))
        shared = {name: {**SHARED_GPU, "NCCL_HOSTID": name} for name in names}
        return GateJob(
            backend=self.backend,
            nodes=names,
            per_node=1,
            pythons=dict.fromkeys(names, python_with_torch()) | self._pythons,
            address="127.0.0.1",
            port=PORT,
            control=dict.fromkeys(names, "lo"),
            planes=(plane,),
            tasks=tasks,
            limits=JobLimits(load=300, rendezvous=120, connect=120, step=STEP_S[self.backend]),
            environment=shared if self.backend == "nccl" else {},
        )

    def run(
        self, count: int, *tasks: Task, on_event: Callable[[RankEvent], None] = lambda _: None
    ) -> tuple[JobRun, RunLogs]:
        """Return the run of a job and what NCCL's logs say; keep all that it wrote."""

        def heard(event: RankEvent) -> None:
            if event["event"] == "hello":
                self.processes[event["rank"]] = event["pid"]
            on_event(event)

        made = self.job(count, *tasks)
        probe = Probe({name: here(name) for name in made.nodes})
        try:
            (ran,) = Launcher(probe, heard).run([made])
        finally:
            probe.close()
        return ran, self._keep(ran)

    def _keep(self, ran: JobRun) -> RunLogs:
        directory = logs_directory() / self.test
        directory.mkdir(parents=True, exist_ok=True)

        def keep(name: str, text: str) -> Path:
            path = directory / name
            path.write_text(text)
            return path

        keep("ranks.jsonl", "".join(json.dumps(event) + "\n" for event in ran.events))
        for name, node in ran.nodes.items():
            keep(f"{name}.err", node.errors)
        return read_run(ran, keep)


def task(number: int, count: int, collective: str = "all_reduce", **more) -> Task:
    return Task(number, "fleet", PLANE, (tuple(range(count)),), collective, **more)
