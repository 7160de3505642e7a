"""Training steps of a group: without communication, then as DDP or FSDP2 runs them."""

from __future__ import annotations

import math
import statistics
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .group import RankGroup

if TYPE_CHECKING:
    from .rank import RankProcess


# Nanoseconds on a processor, nanoseconds in its queue, and times that it got one
# (kernel, Documentation/scheduler/sched-stats.rst).
_SCHEDSTAT = Path("/proc/thread-self/schedstat")


def own_seconds() -> float:
    """Return a clock's seconds: it stands still while others have the processors.

    What sleeps, reads, or is stopped still takes its time. Where the kernel does not count, it is
    the wall clock.
    """
    try:
        waited_ns = int(_SCHEDSTAT.read_text().split()[1])
    except (OSError, IndexError, ValueError):
        waited_ns = 0
    return time.perf_counter() - 1e-9 * waited_ns


PHASES = ("data", "forward", "backward", "optimizer")
# The first steps make DDP's buckets, FSDP's and the optimizer's buffers, and communicators.
_WARM_UP = 3
_LEARNING_RATE = 1e-4


class PhaseClock:
    """When the phases of one step ended: by events on a GPU, which is not waited for.

    On a CPU, time in which others have the processor does not count.
    """

    def __init__(self, process: RankProcess) -> None:
        self._torch, self._on_gpu = process.torch, process.on_gpu
        self._begin, self._own = time.perf_counter(), own_seconds()
        self._marks: list[Any] = []
        self._data_s = 0.0

    def mark(self) -> None:
        """End a phase; the first one is data, which the CPU makes."""
        if not self._marks:
            self._data_s = own_seconds() - self._own
        if not self._on_gpu:
            self._marks.append(own_seconds())
            return
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        self._marks.append(event)

    def us(self) -> list[float]:
        """Return the microseconds of the step, its own ones, and each phase's; wait for the GPU."""
        if self._on_gpu:
            self._torch.cuda.synchronize()
        whole = time.perf_counter() - self._begin
        own = whole if self._on_gpu else self._marks[-1] - self._own
        pairs = zip(self._marks, self._marks[1:], strict=False)
        parts = [a.elapsed_time(b) / 1e3 if self._on_gpu else b - a for a, b in pairs]
        return [1e6 * each for each in (whole, own, self._data_s, *parts)]


def _import_rest() -> None:
    """Import what an optimizer imports in its first step: a slow disk takes a minute for it."""
    with suppress(ImportError):  # a torch before 2.0 has none
        import_module("torch._dynamo")


class TrainingRun:
    """The steps of one task."""

    def __init__(self, group: RankGroup) -> None:
        self._group, self._sizes = group, group.task["work"]
        self._torch = group.torch

    def run(self) -> None:
        """Time both kinds of steps; tell it if this torch cannot."""
        from .transformer import Transformer, has_fsdp, parallel

        group, strategy = self._group, self._sizes["strategy"]
        with group.watch.importing(group.process.plan["limits_s"]["import"]):
            _import_rest()
        if group.is_any(strategy == "fsdp" and not has_fsdp()):
            group.say("lacks", what="torch.distributed.fsdp.fully_shard")
            return
        self._torch.manual_seed(group.task["number"])
        model = Transformer(self._sizes, group.device)
        self._time_steps("alone", model)
        if len(group.ranks) > 1:
            local = group.process.local if group.process.on_gpu else -1
            together = parallel(model, strategy, group.handle, self._sizes, local)
            self._time_steps("together", together)
            del together
        del model
        if group.process.on_gpu:
            self._torch.cuda.empty_cache()

    def _time_steps(self, mode: str, model: Any) -> None:
        fused = {"fused": True} if self._group.process.on_gpu else {}
        optimizer = self._torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE, **fused)
        warm = [self._step(model, optimizer)[0][0] for _ in range(_WARM_UP)]
        count = self._agree_count(1e-6 * warm[-1])
        done = [self._step(model, optimizer) for _ in range(count)]
        times = [us for us, _ in done]
        medians = [statistics.median(each) for each in zip(*times, strict=True)]
        if not math.isfinite(done[-1][1]):
            raise RuntimeError(f"the loss is {done[-1][1]} after {_WARM_UP + count} steps")
        self._group.say(
            "step",
            mode=mode,
            count=count,
            median_us=medians[0],
            best_us=min(us[0] for us in times),
            worst_us=max(us[0] for us in times),
            own_us=medians[1],
            **{f"{name}_us": us for name, us in zip(PHASES, medians[2:], strict=True)},
        )

    def _agree_count(self, once_s: float) -> int:
        least, most, budget_s = self._group.task["repeat"]
        wanted = budget_s / max(once_s, 1e-6)
        return int(self._group.agree(lambda: str(int(min(most, max(least, wanted))))))

    def _step(self, model: Any, optimizer: Any) -> tuple[list[float], float]:
        """Return the times of one step, and its loss."""
        found: list[tuple[list[float], float]] = []

        def work() -> None:
            clock = PhaseClock(self._group.process)
            tokens = self._make_batch()
            clock.mark()
            loss = model(tokens)
            clock.mark()
            loss.backward()
            clock.mark()
            optimizer.step()
            optimizer.zero_grad()
            clock.mark()
            found.append((clock.us(), float(loss)))

        self._group.watch.time_collective(work, self._group.communicator)
        return found[0]

    def _make_batch(self) -> Any:
        """Return a batch of random tokens on the device: made by the CPU, as a loader does."""
        sizes, on_gpu = self._sizes, self._group.process.on_gpu
        shape = (sizes["batch"], sizes["sequence"] + 1)
        made = self._torch.randint(sizes["vocabulary"], shape, pin_memory=on_gpu)
        return made.to(self._group.device, non_blocking=on_gpu)
