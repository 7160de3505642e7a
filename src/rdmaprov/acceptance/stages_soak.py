"""The stage `soak`: all nodes for a long time with random data, and when it became slower."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from rdmaprov.acceptance import blame, jobs, over_time, rail_map, wrong_sums
from rdmaprov.acceptance.finding import ISOLATE, Finding
from rdmaprov.acceptance.job_run import JobRun
from rdmaprov.acceptance.jobs import GateSite
from rdmaprov.acceptance.launch import JobRunner
from rdmaprov.acceptance.plan import Task
from rdmaprov.acceptance.stages import StageReport
from rdmaprov.isolation.compare import BAD_SHARE
from rdmaprov.words import duration, quantity

# A change lasts: one slow interval is another job's, or a route that is learned anew.
_LEAST_INTERVALS = 3


def run_soak(site: GateSite, runner: JobRunner, seconds: float) -> StageReport:
    """Return what all nodes did for this many seconds on each plane."""
    job = jobs.fleet_job(site, (jobs.group_bytes(site),), False)
    everyone = (tuple(range(job.world)),)
    tasks = tuple(
        Task(
            number, "soak", plane.name, everyone, sizes=(jobs.group_bytes(site),),
            dtypes=("float32",), soak_s=seconds, limit_s=seconds,
        )
        for number, plane in enumerate(job.planes)
    )  # fmt: skip
    (ran,) = runner.run([replace(job, tasks=tasks)])
    report = StageReport("soak")
    report.findings += blame.findings(ran, rail_map.site_map(site.nodes, site.facts))
    report.findings += wrong_sums.findings(ran)
    report.findings += over_time.soak_findings(site, ran)
    for plane in job.planes:
        report.findings += slow_spells(interval_times(ran, plane.name), plane.rail)
    count = sum(len(interval_times(ran, plane.name)) for plane in job.planes)
    report.said = f"{quantity(job.world, 'rank')} for {duration(seconds)}: "
    report.said += f"{quantity(count, 'interval')}, {quantity(len(report.findings), 'finding')}"
    if ran.good and not count:
        what = "the soak is not verified: no rank reported an interval"
        report.findings.append(
            Finding(what, "Run rdmaprov accept with a longer --soak", proven=False)
        )
    return report


def interval_times(ran: JobRun, plane: str) -> dict[int, float]:
    """Return the median time of the slowest rank in each interval, microseconds."""
    found: dict[int, float] = defaultdict(float)
    for event in ran.events_of("soak"):
        if event["plane"] == plane:
            number = event["interval"]
            found[number] = max(found[number], event["median_us"])
    return dict(sorted(found.items()))


def slow_spells(times: Mapping[int, float], rail: int | None) -> Iterator[Finding]:
    """Yield the longest spell in which the fleet was slower than usual, if it lasted.

    Args:
        times: microseconds of an all-reduce, by interval.
        rail: that it ran on.

    """
    if len(times) < 2 * _LEAST_INTERVALS:
        return
    usual = statistics.median(times.values())
    slow = [number for number, us in times.items() if us * BAD_SHARE > usual]
    spells: list[list[int]] = []
    for number in slow:
        if spells and number == spells[-1][-1] + 1:
            spells[-1].append(number)
        else:
            spells.append([number])
    longest = max(spells, key=len, default=[])
    if len(longest) >= _LEAST_INTERVALS:
        worst = max(times[number] for number in longest)
        what = (
            f"the soak became slower: intervals {longest[0]} to {longest[-1]} of {len(times)} took "
            f"up to {worst / usual:.2f} times as long as the median"
        )
        yield Finding(what, f"Read the rails' counters of that time. {ISOLATE}", rail=rail)
