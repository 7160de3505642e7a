"""One rank: joins the others, and has a communicator for each group that it was in."""

from __future__ import annotations

import datetime
import os
import time
from collections import Counter
from typing import Any

from .group import RankCommunicator, RankGroup
from .progress import Watch, say

_PAUSE_S = 0.02
_SLOWER = 3  # times as long as this rank's import may another's take
# A communicator keeps buffers in the GPU's memory. One that no task used for so long is given up,
# by all of its ranks, as they were in the same tasks: our choice.
KEPT_TASKS = 8


class RankProcess:
    """A process, the store by which ranks meet, and its communicators."""

    def __init__(self, plan: dict[str, Any], watch: Watch) -> None:
        begin = time.monotonic()
        import torch
        import torch.distributed as dist

        self._import_s = time.monotonic() - begin
        self.torch, self.dist, self.plan, self.watch = torch, dist, plan, watch
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.local = int(os.environ["LOCAL_RANK"])
        self.per_node = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        self.on_gpu = plan["backend"] == "nccl"
        self.device = torch.device("cuda", self.local) if self.on_gpu else torch.device("cpu")
        if self.on_gpu:
            torch.cuda.set_device(self.device)
        nccl = torch.cuda.nccl.version() if self.on_gpu else ()
        # Before the hello: then its port is not another program's.
        self._served = self._open_store(plan["limits_s"]["import"]) if self.rank == 0 else None
        say("hello", pid=os.getpid(), torch=torch.__version__, nccl=".".join(map(str, nccl)))
        self.planes = {plane["name"]: plane for plane in plan["planes"]}
        self.store: Any = None
        self._groups: dict[tuple[str, tuple[int, ...]], RankCommunicator] = {}
        self._made: Counter[tuple[str, tuple[int, ...]]] = Counter()
        self._used: dict[tuple[str, tuple[int, ...]], int] = {}

    def join_rendezvous(self) -> None:
        """Join all ranks; rank 0 reports those that did not join.

        On a node that is busy, importing takes a multiple of what it took here.
        """
        limits = self.plan["limits_s"]
        limit = limits["rendezvous"] + _SLOWER * self._import_s
        # Rank 0 has the store; no collective of all ranks is needed to meet.
        store = self._served
        if store is None:
            self.watch.begin_phase("rendezvous", limits["import"] + limit)
            store = self._open_store(limits["import"] + limit)
        self.watch.begin_phase("rendezvous", limit + 5)
        wait = datetime.timedelta(seconds=limit)
        store.set_timeout(wait)
        self.store = self.dist.PrefixStore("rdmaprov", store)
        self._wait_for_all(limit)
        os.environ["GLOO_SOCKET_IFNAME"] = self.plan["control"]
        # A mesh of all ranks would need a file for each; a connection is made when it is used.
        os.environ["TORCH_GLOO_LAZY_INIT"] = "1"
        default = self.dist.PrefixStore("default", store)
        self.dist.init_process_group(
            "gloo", store=default, rank=self.rank, world_size=self.world, timeout=wait
        )

    def _open_store(self, limit_s: float) -> Any:
        """Return the store by which ranks meet, once rank 0 serves it."""
        wait = datetime.timedelta(seconds=limit_s)
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        is_served_here = self.rank == 0
        return self.dist.TCPStore(
            host, port, self.world, is_served_here, wait, wait_for_workers=False
        )

    def _wait_for_all(self, limit_s: float) -> None:
        self.store.set(f"joined/{self.rank}", "")
        self.store.add("joined", 1)
        if self.rank == 0:
            end = time.monotonic() + limit_s
            while self.store.add("joined", 0) < self.world:
                if time.monotonic() > end:
                    raise RuntimeError(self._report_missing(limit_s))
                time.sleep(_PAUSE_S)
            self.store.set("all", "")
        with self.watch.waiting_for(0):
            self.store.get("all")

    def _report_missing(self, limit_s: float) -> str:
        absent = [r for r in range(self.world) if not self.store.check([f"joined/{r}"])]
        names = ", ".join(map(str, absent))
        error = f"Ranks {names[:3000]} failed to pass monitoredBarrier in {limit_s:g} s"
        say("missing", error=error)
        return error

    def group(self, task: dict[str, Any], index: int) -> RankGroup:
        """Return a group of a task, with its communicator; equal groups of a plane share one."""
        ranks = tuple(task["groups"][str(index)])
        key = task["plane"], ranks
        for old in [k for k, last in self._used.items() if last + KEPT_TASKS < task["number"]]:
            self._give_up(old)
        self._used[key] = task["number"]
        if key not in self._groups:
            self._made[key] += 1
            name = f"{key[0]} {ranks} {self._made[key]}"
            self._groups[key] = self._connect(self.planes[task["plane"]], ranks, name)
        return RankGroup(self, task, index, self._groups[key])

    def alone(self, task: dict[str, Any], index: int) -> RankGroup:
        """Return a group of a task that moves no data: without a communicator."""
        return RankGroup(self, task, index, RankCommunicator(None, ""))

    def drop(self, group: RankGroup) -> None:
        """Give up a group's communicator: all pairs of a fleet are too many for a GPU's memory.

        The next group of these ranks has another name: it would find what this one left in the
        store.
        """
        self._give_up((group.task["plane"], tuple(group.ranks)))

    def _give_up(self, key: tuple[str, tuple[int, ...]]) -> None:
        del self._used[key]
        handle = self._groups.pop(key).handle
        if self.on_gpu and hasattr(handle, "shutdown"):
            handle.shutdown()

    def _connect(
        self, plane: dict[str, str], ranks: tuple[int, ...], name: str
    ) -> RankCommunicator:
        limit = self.plan["limits_s"]["connect"]
        self.watch.begin_phase(f"{plane['name']}: connect", limit)
        options: dict[str, Any] = {"timeout": datetime.timedelta(seconds=2 * limit)}
        if self.on_gpu:
            options.update(backend="nccl", device_id=self.device)
        else:
            os.environ["GLOO_SOCKET_IFNAME"] = plane["netdev"]
            options["backend"] = "gloo"
        # Only the group's own ranks take part: groups are made side by side. torch's name for such
        # a group has the number of groups that a process made, and ranks made different numbers:
        # under two names, they would wait for each other forever.
        self.dist.distributed_c10d._process_group_name = lambda *_, **__: name
        made = self.dist.new_group(list(ranks), use_local_synchronization=True, **options)
        communicator = RankCommunicator(made, name)
        small = self.torch.zeros(2, device=self.device)
        self.watch.time_collective(lambda: self.dist.all_reduce(small, group=made), communicator)
        return communicator

    def leave(self) -> None:
        """Tell rank 0 the end, which waits for all: the store ends with its node."""
        self.watch.begin_phase("end", self.plan["limits_s"]["step"])
        self.store.add("left", 1)
        if self.rank == 0:
            while self.store.add("left", 0) < self.world:
                time.sleep(_PAUSE_S)
