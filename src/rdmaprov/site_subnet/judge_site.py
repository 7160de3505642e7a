"""Judge the subnets of a site: by the plan, and by what each of them shows alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rdmaprov.exit_codes import ExitCode
from rdmaprov.finding.finding import Finding, exit_code
from rdmaprov.site_subnet.check_engine import engine_findings
from rdmaprov.site_subnet.check_leaves import expected_leaves, leaf_findings, spine_findings
from rdmaprov.site_subnet.check_managers import manager_findings
from rdmaprov.site_subnet.check_partitions import partition_findings
from rdmaprov.site_subnet.check_ports import (
    extra_findings,
    is_partial,
    missing_findings,
    slow_findings,
    unnamed_findings,
)
from rdmaprov.site_subnet.check_sharp import job_findings, sharp_findings
from rdmaprov.site_subnet.engine_log import EngineLog
from rdmaprov.site_subnet.join import Joined, join
from rdmaprov.site_subnet.partition_tables import PartitionTables
from rdmaprov.site_subnet.peers import SiteNames, findings_of_peers
from rdmaprov.site_subnet.plan import SubnetPlan
from rdmaprov.site_subnet.remedies import with_remedy
from rdmaprov.site_subnet.sharp_job import SharpJob
from rdmaprov.subnet.judge import Assessment


@dataclass(frozen=True)
class SiteAssessment:
    """The judged subnets of a site.

    Args:
        findings: what is wrong before what is not verified.
    """

    plan: SubnetPlan
    subnets: Sequence[Assessment]
    joined: Joined
    findings: Sequence[Finding]

    @property
    def exit_code(self) -> ExitCode:
        """Return the code: something wrong is to be repaired, so it goes first."""
        return exit_code(self.findings)


def judge_site(
    plan: SubnetPlan,
    subnets: Sequence[Assessment],
    not_read: Sequence[Finding] = (),
    logs: Sequence[EngineLog] = (),
    jobs: Sequence[SharpJob] = (),
    tables: PartitionTables | None = None,
) -> SiteAssessment:
    """Return what is wrong with the subnets of a site.

    Args:
        logs: what the master of each subnet says of its routing engine, if the site expects one.
        jobs: what sharp_hello told, if the site wants SHARP.
        tables: the partition keys of the rails for which the site names some.
    """
    joined = join(plan, [each.fabric for each in subnets])
    findings = list(not_read)
    if joined.ports or any(each.fabric.hcas for each in subnets):
        findings += _findings(plan, subnets, joined)
        findings += [
            found
            for subnet, log in zip(subnets, logs, strict=False)
            for found in engine_findings(plan, subnet, log)
        ]
        findings += job_findings(jobs)
        findings += partition_findings(joined, tables) if tables else ()
    else:
        findings += [problem for each in subnets for problem in each.problems]
    findings.sort(key=lambda each: not each.proven)
    return SiteAssessment(plan, subnets, joined, [with_remedy(each) for each in findings])


def _findings(plan: SubnetPlan, subnets: Sequence[Assessment], joined: Joined) -> Iterator[Finding]:
    fabrics = [each.fabric for each in subnets]
    leaves = expected_leaves(plan, joined)
    switches = frozenset(end.name for fabric in fabrics for end in fabric.switches)
    planned = [
        *missing_findings(plan, joined, leaves, switches),
        *unnamed_findings(joined),
        *leaf_findings(plan, joined, leaves),
        *spine_findings(plan, fabrics, is_partial=is_partial(plan, joined)),
        *slow_findings(joined.ports),
        *sharp_findings(plan, fabrics),
        *(found for each in subnets for found in manager_findings(plan, each)),
        *(extra_findings(joined) if plan.is_whole else ()),
    ]
    yield from planned
    names = SiteNames(plan, joined)
    problems = [problem for each in subnets for problem in each.problems]
    yield from findings_of_peers(problems, names, leaves, planned)
