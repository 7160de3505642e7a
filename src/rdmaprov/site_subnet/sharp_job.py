"""Whether an aggregation manager gives a SHARP job: sharp_hello begins one, and ends it again.

NVIDIA SHARP documentation, "Testing NVIDIA SHARP Setup": it creates one job and sends a barrier to
the aggregation node. It prints "Test Passed." at its end.

A switch that can reduce has an adapter of its own, "Mellanox Technologies Aggregation Node", on a
port beyond those of its front panel. Whether an aggregation manager uses it, no tool of
infiniband-diags tells; sharp_hello does, where it is installed.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rdmaprov.finding.finding import Finding
from rdmaprov.problem import printable
from rdmaprov.site_subnet.hosts import FabricHost
from rdmaprov.site_subnet.join import join
from rdmaprov.site_subnet.plan import PlannedRail, SubnetPlan
from rdmaprov.site_subnet.tool import NOT_FOUND, ToolOutput
from rdmaprov.subnet.fabric import Hca, SubnetGraph
from rdmaprov.subnet.judge import Assessment
from rdmaprov.subnet.problem import at, unknown, wrong

# Our choice: where a manager answers it ends within a few seconds, and libsharp has retries.
_LIMIT_S = 60.0
_PASSED = re.compile(r"^Test Passed", re.MULTILINE)
_NO_LIBRARY = "cannot open shared object"
_REASON = re.compile(rf"\bERROR\b|\berror\b|\bfail(?:ed|ure)\b|Unknown port|{_NO_LIBRARY}")
# What a sound aggregation manager says to one that asks at the wrong place or time, in published
# texts (tests/fixtures/subnet/README.md), and two reasons that are the node's alone.
_UNTOLD = {
    "port is used by SM": "the port is that of the subnet manager, which SHARP cannot use",
    "No reservation": "the aggregation manager gives jobs to reserved hosts alone",
    "No resource": "other jobs hold the trees",
    _NO_LIBRARY: "its libraries are not found",
    "Permission denied": "it needs root",
}
_LONGEST = 200
_VARIABLE = "fabric_sharp"
_WANTED = f"which the site wants ({_VARIABLE})"


@dataclass(frozen=True)
class SharpJob:
    """What sharp_hello told on one port."""

    host: str
    rail: PlannedRail | None  # the rail of the site; None where it took a port of its own choice
    # whether the job was given and the barrier came back; None if that is not known
    passed: bool | None
    why: str = ""  # what it said if it did not pass


def sharp_jobs(
    plan: SubnetPlan, subnets: Sequence[Assessment], host: FabricHost, log: list[str]
) -> list[SharpJob]:
    """Return what sharp_hello told on each rail of a host; on a port of its choice if it has none.

    Args:
        plan: of the site; without SHARP in it, nothing runs.
        subnets: each judged alone; where no switch can reduce, nothing runs.
    """
    fabrics = [each.fabric for each in subnets]
    if not plan.sharp or not any(fabric.aggregating for fabric in fabrics):
        return []
    ports = join(plan, fabrics).ports
    own = [rail for rail in plan.rails if rail.node == host.name and rail in ports]
    if not own:
        return [_job(host, None, (), log)]
    return [_job(host, rail, ("-d", _device(ports[rail].hca)), log) for rail in own]


def _device(hca: Hca) -> str:
    return f"{hca.at.device}:{hca.end.port}"


def _job(host: FabricHost, rail: PlannedRail | None, at: Sequence[str], log: list[str]) -> SharpJob:
    output = host.run(("sharp_hello", *at, "-v", "3"), _LIMIT_S)
    lines = f"{output.text}\n{output.errors}".splitlines()
    log += [f"{host.name}: sharp_hello: {line}" for line in lines if line.strip()]
    passed, why = judge_output(output)
    return SharpJob(host.name, rail, passed, why)


def judge_output(output: ToolOutput) -> tuple[bool | None, str]:
    """Return whether sharp_hello passed, None if it does not tell, and why it did not."""
    said = f"{output.text}\n{output.errors}"
    if output.rc == NOT_FOUND and not output.text:
        return None, "it is not installed"
    if output.rc is None:
        return None, printable(output.errors.strip()[:_LONGEST]) or "it gave no result"
    for text, why in _UNTOLD.items():
        if text in said:
            return None, why
    has_passed = _PASSED.search(output.text) is not None
    if has_passed == (output.rc != 0):
        word = "says that it passed" if has_passed else "does not say that it passed"
        return None, f"it ended with {output.rc}, and {word}"
    if has_passed:
        return True, ""
    reasons = [line.strip() for line in said.splitlines() if _REASON.search(line)]
    return False, printable(reasons[-1][-_LONGEST:] if reasons else f"exit code {output.rc}")


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
