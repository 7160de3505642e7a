"""What a run proved: silence is no proof.

A rank that ends with 0 may have done nothing. It has proven a size of a plane if it reported that
all its types were checked and how long the all-reduces took, and a run if it said so at the end.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping

from rdmaprov.acceptance.finding import Finding
from rdmaprov.acceptance.job_run import JobRun
from rdmaprov.bandwidth.sizes import format_size

_TIMES = ("median_us", "p99_us", "min_us")


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
        yield Finding(f"not verified: {gaps[0]}{more}", remedy, name, proven=False)


def is_complete(ran: JobRun) -> bool:
    """Return whether every rank proved every size of every plane that was not declared cut."""
    return next(_gaps(ran), None) is None


def _gaps(ran: JobRun) -> Iterator[tuple[int, str]]:
    """Yield a rank and what it did not prove."""
    ended = {event["rank"] for event in ran.events_of("done")}
    checked = {
        (event["rank"], event["plane"], event["bytes"])
        for event in ran.events_of("checked")
        if set(ran.job.dtypes) <= set(event["dtypes"])
    }
    timed = {
        (event["rank"], event["plane"], event["bytes"], event["in_place"])
        for event in ran.events_of("row")
        if event["count"] > 0 and all(_is_time(event[name]) for name in _TIMES)
    }
    cuts = _cuts(ran)
    for rank in range(ran.job.world):
        if rank not in ended:
            yield rank, "did not report its end"
        for plane in ran.job.planes:
            for size in ran.job.sizes:
                if size >= cuts.get(plane.name, math.inf):
                    break
                at = f"{plane.name}, {format_size(size)}"
                if (rank, plane.name, size) not in checked:
                    yield rank, f"did not report checked values ({at})"
                elif not all((rank, plane.name, size, place) in timed for place in (True, False)):
                    yield rank, f"reported no time for {at}"


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0


def _cuts(ran: JobRun) -> Mapping[str, int]:
    """Return by plane the size from which on all ranks agreed to stop; rank 0 says so for all."""
    return {event["plane"]: event["bytes"] for event in ran.events_of("cut") if event["rank"] == 0}
