"""Judge whether switches can reduce (SHARP), where the site wants that.

A switch that can has an adapter of its own, "Mellanox Technologies Aggregation Node", on a port
beyond those of its front panel. Whether an aggregation manager uses it, no tool of
infiniband-diags tells; sharp_hello does, where it is installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rdmaprov.finding.finding import Finding
from rdmaprov.site_subnet.plan import SubnetPlan
from rdmaprov.site_subnet.sharp_job import SharpJob
from rdmaprov.subnet.fabric import SubnetGraph
from rdmaprov.subnet.problem import at, unknown, wrong

_VARIABLE = "fabric_sharp"
_WANTED = f"which the site wants ({_VARIABLE})"


def sharp_findings(plan: SubnetPlan, fabrics: Sequence[SubnetGraph]) -> Iterator[Finding]:
    """Yield the switches without an aggregation node; one finding if none has any."""
    if not plan.sharp:
        return
    if not any(fabric.aggregating for fabric in fabrics):
        text = f"no switch has an aggregation node for SHARP, {_WANTED}"
        yield wrong("subnet.sharp", _VARIABLE, None, text)
        return
    for fabric in fabrics:
        for number in range(len(fabric.switches)):
            if number not in fabric.aggregating:
                text = f"has no aggregation node for SHARP, {_WANTED}"
                yield wrong("subnet.sharp", fabric.label(number), None, text)


def job_findings(jobs: Sequence[SharpJob]) -> Iterator[Finding]:
    """Yield the rails that got no job, one finding if none did; that no host could tell it."""
    failed = [job for job in jobs if job.passed is False]
    if failed and len(failed) == len(jobs):
        text = f"no SHARP job is given, {_WANTED}: {_said(failed[0])}"
        yield wrong("subnet.sharp", _VARIABLE, None, text)
        return
    for job in failed:
        if job.rail:
            text = f"{job.rail.label} gets no SHARP job, {_WANTED}: {_said(job)}"
            problem = wrong("subnet.sharp", job.rail.label, None, text)
            yield at(problem, job.rail.node, job.rail.index)
    untold = [job for job in jobs if job.passed is None]
    if untold:
        alone = "" if len(untold) == len(jobs) else f" on {_where(untold)}"
        text = f"whether a SHARP job is given{alone}: {_said(untold[0])}"
        yield unknown(_VARIABLE, text)


def _said(job: SharpJob) -> str:
    return f"sharp_hello on {job.host}: {job.why}"


def _where(jobs: Sequence[SharpJob]) -> str:
    return ", ".join(job.rail.label for job in jobs if job.rail)
