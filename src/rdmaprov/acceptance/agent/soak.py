"""A soak: one size for a long time with random data, a report for each interval."""

from __future__ import annotations

import statistics
import time
from typing import Any

from .collectives import COLLECTIVES, AllReduce
from .group import RankGroup
from .senders import find_wrong_ranks

# Our choice: half an hour has 180 points, and one that is slow still has many iterations.
INTERVAL_S = 10.0
_EXACT_BITS = 24  # float32 has all whole numbers up to 2^24
_DTYPE = "float32"


class Soak:
    """A collective that runs for a task's `soak_s`.

    Random data are whole numbers whose sum over all ranks float32 has exactly. So the result of an
    iteration equals the previous one, in any order of adding, and a sum over its bits shows a
    difference. The last iteration of each interval has exact values, and is verified.
    """

    def __init__(self, group: RankGroup) -> None:
        self._group, self._task = group, group.task
        width = 4
        self._size = max(self._task["sizes"])
        dtype = getattr(group.torch, _DTYPE)
        self._values = group.values()
        self._made: AllReduce = COLLECTIVES[self._task["collective"]](
            group, self._values, self._size // width, dtype
        )
        self._wrong = False
        self._iteration = 0

    def run(self) -> None:
        """Run all intervals; their lengths are agreed on, as is the end."""
        begin = time.monotonic()
        once_s, interval = self._run_exact(0), 0
        while count := self._agree_count(begin, once_s):
            times = self._run_random(interval, count)
            once_s = statistics.median(times)
            self._run_exact(interval)
            if self._group.is_first_of_node:
                self._report(interval, times)
            interval += 1
        if self._group.is_any(self._wrong):
            find_wrong_ranks(self._group)

    def _agree_count(self, begin: float, once_s: float) -> int:
        def decide() -> str:
            left = self._task["soak_s"] - (time.monotonic() - begin)
            return str(max(2, int(min(INTERVAL_S, left) / max(once_s, 1e-6))) if left > 0 else 0)

        return int(self._group.agree(decide))

    def _run_random(self, interval: int, count: int) -> list[float]:
        torch, given = self._group.torch, self._made.given
        most = (1 << _EXACT_BITS) // len(self._group.ranks)
        generator = torch.Generator(device=given.device)
        generator.manual_seed(interval * 1_000_003 + self._group.rank)
        given.copy_(
            torch.randint(-most, most + 1, given.shape, generator=generator, device=given.device)
        )
        times, sums, first = [], 0, None
        for _ in range(count):
            times.append(self._time_once())
            sums = int(self._made.out.view(torch.int32).sum(dtype=torch.int64))
            if first is not None and sums != first:
                self._say_wrong((1, -1, float(sums), float(first)))
            first = sums if first is None else first
        return times

    def _run_exact(self, salt: int) -> float:
        self._made.fill(salt)
        seconds = self._time_once()
        found = self._made.wrong(salt)
        if found[0]:
            self._say_wrong(found)
        return seconds

    def _time_once(self) -> float:
        self._iteration += 1
        self._made.prepare(in_place=self._made.places[0])
        if self._group.process.on_gpu:
            self._group.torch.cuda.synchronize()
        place = self._made.places[0]
        return self._group.time_run(lambda: self._made.run(place), self._made.due_bytes)

    def _say_wrong(self, first: tuple[int, int, float, float]) -> None:
        if self._wrong:  # one report for each rank; a bad one would fill the log
            return
        self._wrong = True
        row: dict[str, Any] = {"dtype": _DTYPE, "bytes": self._size, "in_place": True}
        of, iteration = self._made.out.numel(), self._iteration
        self._group.say("wrong", **row, first=first, of=of, iteration=iteration)

    def _report(self, interval: int, times: list[float]) -> None:
        us = [round(1e6 * each, 1) for each in times]
        median = round(statistics.median(us), 1)
        found = {"median_us": median, "min_us": min(us), "max_us": max(us)}
        self._group.say("soak", interval=interval, count=len(us), **found)
