"""A sweep: the values of every size and type are verified, the first type is timed."""

from __future__ import annotations

import statistics
import time
from typing import Any

from .collectives import COLLECTIVES, AllReduce
from .group import RankGroup
from .senders import find_wrong_ranks

_CUT = "cut"


class Sweep:
    """The sizes of a task, the largest first: if time runs out, it is small ones that are missing.

    Args:
        group: under test.

    """

    def __init__(self, group: RankGroup) -> None:
        self._group, self._task = group, group.task
        self._values = group.values()
        self._salt = 0
        self._wrong = False

    def run(self) -> None:
        """Prove all sizes; those beyond the task's time limit are reported as cut."""
        begin = time.monotonic()
        for size in sorted(self._task["sizes"], reverse=True):
            used = self._group.agree(lambda: self._used(begin))
            if float(used) > self._task["limit_s"]:
                self._group.say("cut", bytes=size, used_s=float(used))
                break
            for name in self._task["dtypes"]:
                self._prove(size, name, name == self._task["dtypes"][0])
            self._group.say("checked", bytes=size, dtypes=self._task["dtypes"])
        if self._group.is_any(self._wrong):
            find_wrong_ranks(self._group)

    def _used(self, begin: float) -> str:
        return f"{time.monotonic() - begin:.3f}"

    def _prove(self, size: int, name: str, is_timed: bool) -> None:
        dtype = getattr(self._group.torch, name)
        width = self._group.torch.empty(0, dtype=dtype).element_size()
        made = COLLECTIVES[self._task["collective"]](
            self._group, self._values, size // width, dtype
        )
        for in_place in made.places:
            self._salt += 1
            row = {"dtype": name, "bytes": size, "in_place": in_place}
            made.fill(self._salt)
            first = self._time_once(made, in_place)
            self._verify(made, row, 0)
            if is_timed:
                times = self._time_all(made, row, min(first, self._time_once(made, in_place)))
                self._group.say("row", **row, **summary(times))

    def _time_once(self, made: AllReduce, in_place: bool) -> float:
        """Return the seconds of one run, on the same data as each."""
        made.prepare(in_place)
        if self._group.process.on_gpu:
            self._group.torch.cuda.synchronize()
        return self._group.time_run(lambda: made.run(in_place), made.due_bytes)

    def _time_all(self, made: AllReduce, row: dict[str, Any], once_s: float) -> list[float]:
        """Return the times of all runs; the result of the last one and of any other is verified."""
        count = int(self._group.agree(lambda: str(self._count(once_s))))
        checked = self._salt * 7919 % max(1, count - 1)
        times = []
        for number in range(count):
            times.append(self._time_once(made, bool(row["in_place"])))
            if number in (checked, count - 1):
                self._verify(made, row, 1 + number)
        return times

    def _count(self, once_s: float) -> int:
        least, most, budget = self._task["repeat"]
        return int(min(most, max(least, int(budget / max(once_s, 1e-7)))))

    def _verify(self, made: AllReduce, row: dict[str, Any], iteration: int) -> None:
        self._group.watch.begin_step()
        found = made.wrong(self._salt)
        if not found[0] and not row["in_place"]:
            found = made.wrong_given(self._salt)
        if found[0]:
            self._wrong = True
            of = made.out.numel()
            self._group.say("wrong", **row, first=found, of=of, iteration=iteration)


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
