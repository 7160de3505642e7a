"""A sweep: the values of every size and type are verified, the first type is timed."""

from __future__ import annotations

import statistics
import time
from typing import Any

from .collectives import COLLECTIVES, AllReduce
from .group import RankGroup
from .senders import find_wrong_ranks


class Sweep:
    """The sizes of a task, the largest first: if time runs out, small ones are missing."""

    def __init__(self, group: RankGroup) -> None:
        self._group, self._task = group, group.task
        self._values = group.values()
        self._begin = time.monotonic()
        self._used_s = 0.0
        self._salt = 0
        self._wrong = False

    def run(self) -> None:
        """Prove all sizes; those beyond the task's time limit are reported as cut."""
        for size in sorted(self._task["sizes"], reverse=True):
            if self._used_s > self._task["limit_s"]:
                self._group.say("cut", bytes=size, used_s=self._used_s)
                break
            for name in self._task["dtypes"]:
                self._prove(size, name, name == self._task["dtypes"][0])
            self._group.say("checked", bytes=size, dtypes=self._task["dtypes"])
        if self._group.is_any(self._wrong):
            find_wrong_ranks(self._group)

    def _prove(self, size: int, name: str, is_timed: bool) -> None:
        dtype = getattr(self._group.torch, name)
        width = self._group.torch.empty(0, dtype=dtype).element_size()
        made = COLLECTIVES[self._task["collective"]](
            self._group, self._values, size // width, dtype
        )
        count = 0
        for in_place in made.places:
            self._salt += 1
            row = {"dtype": name, "bytes": size, "in_place": in_place}
            made.fill(self._salt)
            first = self._time_once(made, in_place)
            self._verify(made, row, 0)
            if is_timed:
                once_s = min(first, self._time_once(made, in_place))
                count = count or self._agree_count(once_s, len(made.places))
                times = self._time_all(made, row, count)
                self._group.say("row", **row, **summary(times))

    def _time_once(self, made: AllReduce, in_place: bool) -> float:
        """Return the seconds of one run, on the same data as each."""
        made.prepare(in_place)
        if self._group.process.on_gpu:
            self._group.torch.cuda.synchronize()
        return self._group.time_run(lambda: made.run(in_place), made.due_bytes)

    def _time_all(self, made: AllReduce, row: dict[str, Any], count: int) -> list[float]:
        """Return the times of all runs; the result of the last one and of any other is verified."""
        checked = self._salt * 7919 % max(1, count - 1)
        times = []
        for number in range(count):
            times.append(self._time_once(made, bool(row["in_place"])))
            if number in (checked, count - 1):
                self._verify(made, row, 1 + number)
        return times

    def _agree_count(self, once_s: float, places: int) -> int:
        """Return how often to repeat; agree, too, on the time that is used after that.

        One agreement for each size: at thousands of ranks, they are what a small size costs.
        """
        least, most, budget = self._task["repeat"]

        def decide() -> str:
            count = int(min(most, max(least, int(budget / max(once_s, 1e-7)))))
            used = time.monotonic() - self._begin + places * count * once_s
            return f"{count} {used:.3f}"

        count, used = self._group.agree(decide).split()
        self._used_s = float(used)
        return int(count)

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
