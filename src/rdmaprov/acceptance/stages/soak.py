"""The stage `soak`: all nodes for a long time with random data, and when it became slower."""

import itertools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rdmaprov.acceptance.at_fault import run as blame
from rdmaprov.acceptance.at_fault import wrong_sums
from rdmaprov.acceptance.evidence import measure
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks import jobs, rail_map
from rdmaprov.acceptance.ranks.launch import JobRunner
from rdmaprov.acceptance.ranks.plan import Task
from rdmaprov.acceptance.remedies import ISOLATE
from rdmaprov.acceptance.stage_report import StageReport
from rdmaprov.acceptance.stages import over_time
from rdmaprov.finding.finding import Finding
from rdmaprov.isolation.compare import BAD_SHARE
from rdmaprov.rail_counters.change_points import change_points
from rdmaprov.words import duration, quantity


def run_soak(site: GateSite, runner: JobRunner, seconds: float) -> StageReport:
    """Return what all nodes did for this many seconds on each plane."""
    job = jobs.fleet_job(site, (jobs.group_bytes(site),), False)
    everyone = (tuple(range(job.world)),)
    tasks = tuple(
        Task(
            number,
            "soak",
            plane.name,
            everyone,
            sizes=(jobs.group_bytes(site),),
            dtypes=("float32",),
            soak_s=seconds,
            limit_s=seconds,
        )
        for number, plane in enumerate(job.planes)
    )
    (ran,) = runner.run([replace(job, tasks=tasks)])
    report = StageReport("soak")
    report.findings += blame.findings(ran, rail_map.site_map(site.nodes, site.facts))
    report.findings += wrong_sums.findings(ran)
    report.findings += over_time.soak_findings(site, ran)
    times = measure.soak_times(ran)
    for task, plane in zip(tasks, job.planes, strict=True):
        report.findings += slow_levels(times.get(task.number, ()), plane.rail)
    count = sum(map(len, times.values()))
    report.said = f"{quantity(job.world, 'rank')} for {duration(seconds)}: "
    report.said += f"{quantity(count, 'interval')}, {quantity(len(report.findings), 'finding')}"
    if ran.good and not count:
        what = "the soak is not verified: no rank reported an interval"
        report.findings.append(
            Finding(
                "soak.unmeasured", what, "Run rdmaprov accept with a longer --soak", proven=False
            )
        )
    return report


def slow_levels(times: Sequence[float], rail: int | None) -> Iterator[Finding]:
    """Yield the spells in which all ranks were slower than at their best, if they lasted.

    Args:
        times: microseconds of an all-reduce, by interval.
    """
    if not times:
        return
    cuts = [0, *change_points(times), len(times)]
    levels = [(*ends, statistics.median(times[slice(*ends)])) for ends in itertools.pairwise(cuts)]
    usual = min(us for _, _, us in levels)
    for begin, end, us in levels:
        if us * BAD_SHARE > usual:
            what = (
                f"the soak was slower in intervals {begin} to {end - 1} of {len(times)}: an "
                f"all-reduce took {us / usual:.2f} times as long as at its best"
            )
            yield Finding(
                "soak.slower", what, f"Read the rails' counters of that time. {ISOLATE}", rail=rail
            )
