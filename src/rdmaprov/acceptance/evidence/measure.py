"""Numbers of a run: bandwidth by size, latency between nodes, and stragglers."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter

from rdmaprov.acceptance.ranks.events import RankEvent
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.bandwidth import outliers

# A straggler makes the others wait this much longer than it waits itself.
STRAGGLER_RATIO, STRAGGLER_US = 3.0, 500.0


_TIMES = ("median_us", "p99_us", "min_us")
_READ_TIMES = tuple(map(itemgetter, _TIMES))


@dataclass(frozen=True)
class SweepRow:
    """One size of a group's sweep."""

    plane: str
    bytes: int
    in_place: bool  # whether the result overwrites what a rank gave
    count: int
    median_us: float  # the median time of the slowest rank
    p99_us: float  # the 99th percentile of the slowest rank
    best_us: float  # the least time, of the rank for which that is longest
    task: int
    group: int
    collective: str  # such as `all_reduce`
    ranks: tuple[int, ...]

    @property
    def algbw_gb_s(self) -> float:
        """Return bytes by time, in GB/s."""
        return self.bytes / self.median_us / 1e3

    @property
    def busbw_gb_s(self) -> float:
        """Return algbw · 2 (n-1) / n of an all-reduce, algbw · (n-1) / n of the others, in GB/s.

        nccl-tests, doc/PERFORMANCE.md.
        """
        return self.algbw_gb_s * self._factor

    @property
    def best_gb_s(self) -> float:
        """Return the bus bandwidth of the fastest iteration, in GB/s."""
        return self.bytes / self.best_us / 1e3 * self._factor

    @property
    def _factor(self) -> float:
        directions = 2 if self.collective == "all_reduce" else 1
        return directions * (len(self.ranks) - 1) / len(self.ranks)


def rows(ran: JobRun, first: int = 0, collective: str = "") -> list[SweepRow]:
    """Return the sweeps, without sizes that not all ranks of a group reported.

    Args:
        first: the number of the first event that is read.
        collective: the only one that is read; empty for all.
    """
    said: dict[tuple[int, int, int, bool], list[RankEvent]] = defaultdict(list)
    wanted = {n for n, task in ran.tasks.items() if collective in ("", task.collective)}
    for event in ran.events[first:]:
        if event["event"] == "row" and event["task"] in wanted:
            said[event["task"], event["group"], event["bytes"], event["in_place"]].append(event)
    found = []
    for (number, group, size, in_place), own in said.items():
        task = ran.tasks[number]
        ranks = task.groups[group]
        if len(own) < len(ranks):
            continue
        median_us, p99_us, best_us = (max(map(float, map(each, own))) for each in _READ_TIMES)
        times = (own[0]["count"], median_us, p99_us, best_us)
        at = (number, group, task.collective, ranks)
        found.append(SweepRow(task.plane, size, in_place, *times, *at))
    return found


def largest_row(found: Iterable[SweepRow], plane: str) -> SweepRow | None:
    """Return a plane's row with the largest message, in place; None without any."""
    own = [row for row in found if row.plane == plane and row.in_place]
    return max(own, key=lambda row: row.bytes, default=None)


@dataclass(frozen=True)
class Direction:
    """How one node sends to another over a plane: half of a round trip, and a burst's rate."""

    plane: str
    source: str
    target: str
    us: float
    gb_s: float


def directions(ran: JobRun) -> list[Direction]:
    """Return what nodes measured between each other."""
    return [
        Direction(
            event["plane"],
            ran.job.node_of(event["rank"]),
            ran.job.node_of(event["to"]),
            event["us"],
            event["gb_s"],
        )
        for event in ran.events_of("pair")
    ]


def lateness(ran: JobRun, plane: str) -> dict[int, float]:
    """Return how far each rank is behind in a small all-reduce, median microseconds.

    The last rank to join waits least, so no clocks are compared.
    """
    by_group: dict[tuple[int, int], dict[int, list[float]]] = defaultdict(dict)
    for event in ran.events_of("waits"):
        if event["plane"] == plane:
            by_group[event["task"], event["group"]][event["rank"]] = event["us"]
    found: dict[int, float] = {}
    for (task, group), waits in by_group.items():
        if len(waits) == len(ran.tasks[task].groups[group]):
            found.update(_behind(waits))
    return found


def _behind(waits: Mapping[int, list[float]]) -> dict[int, float]:
    """Return how far each rank of a group is behind, by the times of the same all-reduces."""
    if len({len(times) for times in waits.values()}) > 1:
        return {}
    longest = [max(times) for times in zip(*waits.values(), strict=True)]
    return {
        rank: statistics.median(most - own for most, own in zip(longest, times, strict=True))
        for rank, times in waits.items()
    }


def stragglers(ran: JobRun, plane: str) -> dict[int, float]:
    """Return the stragglers, with how far each is behind the others, in microseconds."""
    found = {str(rank): us for rank, us in lateness(ran, plane).items()}
    return {int(rank): found[rank] for rank in outliers.high(found, STRAGGLER_RATIO, STRAGGLER_US)}


def times_by_rank(ran: JobRun, plane: str, size: int) -> dict[int, Mapping[str, float]]:
    """Return each rank's times for a size in place, microseconds."""
    return {
        event["rank"]: {key: event[key] for key in _TIMES}
        for event in ran.events_of("row")
        if event["plane"] == plane and event["bytes"] == size and event["in_place"]
    }


def soak_times(ran: JobRun) -> Mapping[int, list[float]]:
    """Return by task the median time of each interval, of the slowest node, in microseconds."""
    slowest: dict[tuple[int, int], float] = {}
    for event in ran.events_of("soak"):
        at = event["task"], event["interval"]
        slowest[at] = max(event["median_us"], slowest.get(at, 0.0))
    found: dict[int, list[float]] = defaultdict(list)
    for task, interval in sorted(slowest):
        found[task].append(slowest[task, interval])
    return found


def slow_in_collectives(ran: JobRun) -> dict[int, float]:
    """Return ranks that are slow inside each collective, with the microseconds of their best pair.

    All ranks of a collective wait for such a rank alike, so no time of a group shows it. In pairs,
    each collective with it is slow, and its partners have others.
    """
    best: dict[int, float] = {}
    for event in ran.events_of("pair"):
        for rank in (event["rank"], event["to"]):
            us = float(event.get("reduce_us", event["us"]))
            best[rank] = min(us, best.get(rank, us))
    found = outliers.high({str(r): us for r, us in best.items()}, STRAGGLER_RATIO, STRAGGLER_US)
    return {int(rank): best[int(rank)] for rank in found}
