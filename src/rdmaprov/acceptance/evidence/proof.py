"""What a run proved: silence is no proof.

A rank that ends with 0 may have done nothing. It has proven a size of a plane if it reported that
all its types were checked and how long the collective took; and a task and a run, if it said so at
their end.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from operator import itemgetter

from rdmaprov.acceptance.ranks.events import RankEvent
from rdmaprov.acceptance.ranks.plan import Task
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.bandwidth.rates import format_size
from rdmaprov.finding.finding import Finding

_TIMES = itemgetter("median_us", "p99_us", "min_us")


def findings(ran: JobRun) -> Iterator[Finding]:
    """Yield for each node what its ranks did not prove; nothing if they proved everything."""
    missing: dict[str, list[str]] = defaultdict(list)
    for rank, what in _gaps(ran):
        missing[ran.job.node_of(rank)].append(f"rank {rank} {what}")
    for name, gaps in missing.items():
        more = f", and {len(gaps) - 1} more" if len(gaps) > 1 else ""
        remedy = (
            f"On {name}, check the Python that has torch; on the controller, read logs/ranks.jsonl"
        )
        yield Finding("rank.unproven", f"not verified: {gaps[0]}{more}", remedy, name, proven=False)


def is_complete(ran: JobRun) -> bool:
    """Return whether every rank proved every size of every plane that was not declared cut."""
    return next(_gaps(ran), None) is None


def _gaps(ran: JobRun) -> Iterator[tuple[int, str]]:
    """Yield a rank and what it did not prove."""
    ended = {event["rank"] for event in ran.events_of("done")}
    finished = {(event["rank"], event["task"]) for event in ran.events_of("finished")}
    if not ran.tasks:
        yield 0, "was given nothing to do"
    for rank in range(ran.job.world):
        if rank not in ended:
            yield rank, "did not report its end"
        for task in ran.tasks.values():
            if (rank, task.number) not in finished:
                yield rank, f"did not finish a task ({task.plane}, {task.collective})"
    said: dict[int, list[RankEvent]] = defaultdict(list)
    for event in ran.events:
        said[event.get("task", -1)].append(event)
    for task in ran.tasks.values():
        if task.soak_s:
            yield from _soak_gaps(ran, said[task.number], task)
        else:
            yield from _task_gaps(said[task.number], task)


def _soak_gaps(ran: JobRun, own: list[RankEvent], task: Task) -> Iterator[tuple[int, str]]:
    """Yield the first rank of each node and group from which no interval of a soak came."""
    told = {
        (event["group"], ran.job.node_of(event["rank"]))
        for event in own
        if event["event"] == "soak" and event["count"] > 0
    }
    for rank, group in task.group_of.items():
        if (at := (group, ran.job.node_of(rank))) not in told:
            told.add(at)
            yield rank, f"reported no time of the soak ({task.plane})"


def _task_gaps(own: list[RankEvent], task: Task) -> Iterator[tuple[int, str]]:
    """Yield a rank and the sizes of a task that it did not prove, by the events of the task."""
    dtypes = set(task.dtypes)
    checked = {
        (event["rank"], event["plane"], event["bytes"])
        for event in own
        if event["event"] == "checked" and dtypes.issubset(event["dtypes"])
    }
    timed = {
        (event["rank"], event["plane"], event["bytes"], event["in_place"])
        for event in own
        if event["event"] == "row" and event["count"] > 0 and all(map(_is_time, _TIMES(event)))
    }
    cuts = {
        event["group"]: event["bytes"]
        for event in own
        if event["event"] == "cut" and event["rank"] == task.groups[event["group"]][0]
    }
    places = (True, False) if task.collective == "all_reduce" else (False,)
    for rank, group in task.group_of.items():
        for size in task.sizes:
            if size <= cuts.get(group, -1):
                continue
            if (rank, task.plane, size) not in checked:
                at = f"{task.plane}, {format_size(size)}"
                yield rank, f"did not report checked values ({at})"
                continue
            for place in places:
                if (rank, task.plane, size, place) not in timed:
                    yield rank, f"reported no time for {task.plane}, {format_size(size)}"
                    break


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0
