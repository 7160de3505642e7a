"""A runner whose ranks answer at once, as slow as a test says, and a site of them."""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace

from tests.unit.helpers.accept_runs import say
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.preflight.reach import Rendezvous
from rdmaprov.acceptance.ranks.plan import GateJob, Task
from rdmaprov.acceptance.ranks.run import JobRun, NodeRun
from rdmaprov.inventory import load_site

RATE_GB_S = 400.0


class FakeRunner:
    """Has groups reach the least share of their members; 0 hangs, None dies."""

    def __init__(
        self,
        share: Callable[[str, str, int], float | None],
        us: Callable[[str, str], float] = lambda _one, _other: 9.0,
    ) -> None:
        self.share, self.us = share, us
        self.jobs: list[GateJob] = []
        self.tasks: list[Task] = []

    def times(self, run, task, ranks, size):
        """Return the times of a rank's row, in µs, by the least share of its group."""
        shares = [
            self.share(run.job.node_of(rank), task.plane, rank % run.job.per_node) for rank in ranks
        ]
        factor = 2 * (len(ranks) - 1) / len(ranks)
        us = size * factor / (RATE_GB_S * min(share or 0 for share in shares)) / 1e3
        return {"median_us": us, "p99_us": us, "min_us": us}

    def run(self, jobs, limit_s=None):
        with self.open(jobs, limit_s) as session:
            for place in range(max(len(job.tasks) for job in jobs)):
                session.perform({n: job.tasks[place] for n, job in enumerate(jobs)})
        return session.runs

    @contextmanager
    def open(self, jobs, limit_s=None):
        del limit_s
        self.jobs += jobs
        session = FakeSession(self, [JobRun(replace(job, tasks=())) for job in jobs])
        yield session
        for run in session.runs:
            for node in run.nodes.values():
                if not run.has_failed:
                    node.rc = 0


class FakeSession:
    def __init__(self, runner, runs):
        self.runner, self.runs = runner, runs
        for run in runs:
            for name in run.job.nodes:
                own = run.job.ranks_of(name)
                run.nodes[name] = NodeRun(
                    directory="/run/x", own=own, world=run.job.world, tasks=run.tasks, left=()
                )

    def perform(self, tasks):
        for index, task in tasks.items():
            run = self.runs[index]
            assert not run.has_failed, "a job that failed gets no task"
            run.tasks[task.number] = task
            self.runner.tasks.append(task)
            for group in range(len(task.groups)):
                self._measure(run, task, group)

    def _measure(self, run, task, group):
        ranks = task.groups[group]
        shares = [
            self.runner.share(run.job.node_of(rank), task.plane, rank % run.job.per_node)
            for rank in ranks
        ]
        if None in shares:
            name = run.job.node_of(ranks[shares.index(None)])
            run.nodes[name].lost, run.nodes[name].why = True, f"{name}: no answer in 20 s"
            return
        if 0 in shares:
            for rank in ranks:
                say(
                    run, rank, "late", phase="x", limit_s=1, where="/torch/distributed/x", entered=1
                )
            return
        if task.collective == "exchange":
            one, other = ranks
            us = self.runner.us(run.job.node_of(one), run.job.node_of(other))
            at = {"plane": task.plane, "task": task.number, "group": group}
            say(run, one, "pair", **at, to=other, us=us, gb_s=1.0, reduce_us=us)
        for size in task.sizes:
            times = self.runner.times(run, task, ranks, size)
            for rank in ranks:
                at = {"plane": task.plane, "task": task.number, "group": group}
                row = {**at, "dtype": "float32", "bytes": size, "in_place": True}
                say(run, rank, "row", **row, count=20, **times)
        for rank in ranks:
            run.take_event({"event": "finished", "rank": rank, "task": task.number})


GPUS = 8


def made_site(path, count=16, backend="nccl", per_leaf=0, extra=""):
    leaf = [f", fabric_leaf: leaf{n // per_leaf}" if per_leaf else "" for n in range(count)]
    hosts = "".join(f"    n{n + 1}: {{unit: {n + 1}{leaf[n]}}}\n" for n in range(count))
    files = {**GOOD, "hosts.yml": f"---\nnodes:\n  hosts:\n{hosts}"}
    files["group_vars/nodes.yml"] = files.get("group_vars/nodes.yml", "---\n") + extra
    nodes = load_site(write(path / "site", files)).nodes
    assert len(nodes) == count
    facts = {
        node.name: {
            "port": 40000,
            "addresses": {"eth0": [f"192.0.2.{number}"]},
            "gpus": {"gpus": [{"free_mib": "80000", "total_mib": "81920"}] * GPUS},
            "rails": [{"netdev": f"ens{r}", "rdma": f"mlx5_{r}"} for r in (1, 2)],
        }
        for number, node in enumerate(nodes, start=1)
    }
    return GateSite(nodes, facts, backend, Rendezvous("192.0.2.1", dict.fromkeys(facts, "eth0")))


def slow(bad, share=0.5, plane=None, gpus=range(GPUS)):
    def of(node, where, gpu):
        return share if node == bad and plane in (None, where) and gpu in gpus else 1.0

    return of
