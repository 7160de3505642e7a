"""One rank: joins the others, verifies values and times all-reduces."""

from __future__ import annotations

import datetime
import os
import statistics
import time
from typing import Any

from .values import PERIOD, Values
from .watch import Watch, say


class RankProcess:
    """A process in its groups: the default one coordinates the ranks, `group` is under test."""

    def __init__(self, plan: dict[str, Any], watch: Watch) -> None:
        import torch
        import torch.distributed as dist

        self.torch, self.dist, self.plan, self.watch = torch, dist, plan, watch
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.local = int(os.environ["LOCAL_RANK"])
        self.on_gpu = plan["backend"] == "nccl"
        self.device = torch.device("cuda", self.local) if self.on_gpu else torch.device("cpu")
        if self.on_gpu:
            torch.cuda.set_device(self.device)
        nccl = torch.cuda.nccl.version() if self.on_gpu else ()
        say("hello", pid=os.getpid(), torch=torch.__version__, nccl=".".join(map(str, nccl)))
        self.due_bytes = 0
        self.group: Any = None
        self.values: Any = None

    def join_rendezvous(self) -> None:
        """Join all ranks; rank 0 reports those that did not join."""
        limit = self.plan["limits_s"]["rendezvous"]
        self.watch.begin_phase("rendezvous", limit + 5)
        wait = datetime.timedelta(seconds=limit)
        os.environ["GLOO_SOCKET_IFNAME"] = self.plan["control"]
        # A mesh of all ranks would need a file for each; only rank 0 talks to all.
        os.environ["TORCH_GLOO_LAZY_INIT"] = "1" if self.world > 256 else "0"
        self.dist.init_process_group("gloo", timeout=wait)
        try:
            self.dist.monitored_barrier(timeout=wait, wait_all_ranks=True)
        except RuntimeError as error:
            if self.rank == 0:
                say("missing", error=str(error))
            raise
        self.values = Values(self.torch, self.world, self.device)

    def connect(self, plane: dict[str, str]) -> None:
        """Make the group that runs over a plane."""
        self.due_bytes = 0
        limit = self.plan["limits_s"]["connect"]
        self.watch.begin_phase(f"{plane['name']}: connect", limit)
        wait = datetime.timedelta(seconds=2 * limit)
        if self.on_gpu:
            self.group = self.dist.new_group(backend="nccl", timeout=wait, device_id=self.device)
        else:
            os.environ["GLOO_SOCKET_IFNAME"] = plane["netdev"]
            self.group = self.dist.new_group(backend="gloo", timeout=wait)
        self.run_collective(self.torch.zeros(2, device=self.device))

    def run_collective(self, buffer: Any) -> float:
        """Return the seconds of one all-reduce, done."""
        # What a ring has each rank send: nccl-tests, doc/PERFORMANCE.md.
        bytes_given = buffer.numel() * buffer.element_size()
        self.due_bytes += 2 * (self.world - 1) * bytes_given // self.world

        def work() -> None:
            self.dist.all_reduce(buffer, group=self.group)
            if self.on_gpu:
                self.torch.cuda.synchronize()

        return self.watch.time_collective(work)

    def maximum(self, value: float) -> float:
        """Return the largest value of all ranks."""
        shared = self.torch.tensor([value], dtype=self.torch.float64)
        self.watch.time_collective(lambda: self.dist.all_reduce(shared, op=self.dist.ReduceOp.MAX))
        return float(shared)

    def sweep(self, plane: str) -> None:
        """Prove the values of every size and type, and time the first type's.

        Sizes beyond the plane's time limit are reported as cut.
        """
        self.watch.begin_phase(f"{plane}: sweep", self.plan["limits_s"]["step"])
        begin = time.monotonic()
        for size in self.plan["sizes"]:
            used = self.maximum(time.monotonic() - begin)
            if used > self.plan["plane_s"]:
                say("cut", plane=plane, bytes=size, used_s=used)
                return
            for name in self.plan["dtypes"]:
                self._sweep_size(plane, size, name)
            say("checked", plane=plane, bytes=size, dtypes=self.plan["dtypes"])

    def _sweep_size(self, plane: str, size: int, name: str) -> None:
        kind = getattr(self.torch, name)
        count = max(1, size // self.torch.empty(0, dtype=kind).element_size())
        given = self.torch.empty(count, dtype=kind, device=self.device)
        for in_place in (True, False):
            self.values.fill(given, self.rank)
            out = given if in_place else self.torch.empty_like(given)
            first = self._reduce_once(given, out)
            found = self.values.wrong_sums(out)
            kept = (0, -1, 0.0, 0.0) if in_place else self.values.wrong_values(given, self.rank)
            row = {"plane": plane, "dtype": name, "bytes": size, "in_place": in_place}
            if found[0] or kept[0]:
                say("wrong", **row, first=found if found[0] else kept, of=count)
            if self.maximum(float(found[0] + kept[0])):
                self.find_wrong_senders(plane)
            if name == self.plan["dtypes"][0]:
                say("row", **row, **summary(self._time_size(given, out, first)))

    def _reduce_once(self, given: Any, out: Any) -> float:
        """Return the seconds of one all-reduce of `given` into `out`.

        torch has it in place only, so the other one is a copy and an all-reduce, as its functional
        collectives are.
        """
        begin = time.perf_counter()
        if out is not given:
            out.copy_(given)
        copied = time.perf_counter() - begin
        return copied + self.run_collective(out)

    def _time_size(self, given: Any, out: Any, first: float) -> list[float]:
        given.zero_()  # sums of sums would overflow
        slowest = self.maximum(min(first, self._reduce_once(given, out)))
        least, limit, budget = self.plan["repeat"]
        count = min(limit, max(least, int(budget / max(slowest, 1e-7))))
        return [self._reduce_once(given, out) for _ in range(count)]

    def find_wrong_senders(self, plane: str) -> None:
        """Find whose values arrive wrong: each rank sends its own to all."""
        buffer = self.torch.empty(PERIOD, dtype=self.torch.int32, device=self.device)
        for source in range(min(self.world, self.plan["blame_most"])):
            self.values.fill(buffer, self.rank)
            self.watch.begin_step()
            self.dist.broadcast(buffer, src=source, group=self.group)
            found = self.values.wrong_values(buffer, source)
            if found[0]:
                say("source", plane=plane, source=source, first=found)


def summary(seconds: list[float]) -> dict[str, Any]:
    """Return count, median, 99th percentile and least of times, in microseconds."""
    us = sorted(1e6 * each for each in seconds)
    p99 = us[min(len(us) - 1, int(0.99 * len(us)))]
    return {
        "count": len(us),
        "median_us": round(statistics.median(us), 1),
        "p99_us": round(p99, 1),
        "min_us": round(us[0], 1),
    }
