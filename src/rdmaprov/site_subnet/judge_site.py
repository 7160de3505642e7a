"""Judge the subnets of a site: by the plan, and by what each of them shows alone."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rdmaprov.exit_codes import ExitCode
from rdmaprov.finding.finding import Finding, exit_code
from rdmaprov.site_subnet.check_ports import (
    expected_leaves,
    extra_findings,
    is_partial,
    leaf_findings,
    missing_findings,
    slow_findings,
    spine_findings,
    unnamed_findings,
)
from rdmaprov.site_subnet.engine_log import EngineLog, engine_findings
from rdmaprov.site_subnet.join import Joined, join
from rdmaprov.site_subnet.partition_tables import PartitionTables, partition_findings
from rdmaprov.site_subnet.plan import PlannedRail, SubnetPlan, host_keys
from rdmaprov.site_subnet.sharp_job import SharpJob, job_findings, sharp_findings
from rdmaprov.subnet.judge import Assessment
from rdmaprov.subnet.model import Manager
from rdmaprov.subnet.names import place
from rdmaprov.subnet.problem import at, unknown, word, wrong

_REMEDIES = {
    "missing": "Look at the port on the node (ibstat), at its cable, and at the switch's port",
    "missing switch or cable": "Look at the cable, and at the switches at both of its ends",
    "extra": "Write it into the site, or find its owner",
    "cabling": "Move the cable to where the plan has it, or correct the plan (fabric_rails, leaf)",
    "rate": "Reseat or replace the cable; compare what both ends support (iblinkinfo)",
    "errors": "Clean or replace the cable; clear the counters (perfquery -R) and read them again",
    "port": "Look at the port's state (ibportstate) and at the log of the subnet manager",
    "manager": "Have exactly one master: start opensm, or lower the priority of the others",
    "manager of a node": "Look at its unit on the node (systemctl status 'rdmaprov-opensm-*'), then"
    " run: rdmaprov apply SITE --roles subnet_manager",
    "routes": "Have the subnet manager write its tables again, and read its log",
    "credit loop": "Have the subnet manager route without loops, such as by ftree or updn",
    "balance": "Have the subnet manager write its tables again: look at its routing engine, its"
    " root GUIDs, and for tables or weights written by hand",
    "engine": "Look at the engines that the manager was given, and at its log: where an engine does"
    " not suit the fabric, opensm takes the next one",
    "partition": "Give the port this key in the subnet manager's partitions.conf, with its"
    " membership (=full or =limited), and have the manager read it again",
    "sharp": "Look at the switch's firmware and its SHARP setting, and at the log of sharp_am",
    "not verified": "Remove the cause, then run the same command again",
}


def manager_findings(plan: SubnetPlan, subnet: Assessment) -> Iterator[Finding]:
    """Yield the managers of a subnet that are not as the site says; none if it says nothing.

    That there is no master, or more than one, the subnet alone shows.
    """
    masters = [each for each in subnet.managers if each.state == "MASTER"]
    if not plan.managers or len(masters) != 1:
        return
    nodes = {each.guid: _node(plan, subnet, each) for each in subnet.managers}
    yield from _strangers(plan, subnet, nodes)
    master = nodes[masters[0].guid]
    if master and master != plan.managers[0]:
        text = (
            f"it is not the master: {master} is (priority {masters[0].priority}), and"
            f" subnet_manager_hosts begins with {plan.managers[0]}"
        )
        yield at(wrong("subnet.manager", plan.managers[0], None, text), plan.managers[0])
    for node in plan.managers[1:]:
        if node not in nodes.values():
            yield _absent(node, subnet)


def _strangers(plan: SubnetPlan, subnet: Assessment, nodes: dict[int, str]) -> Iterator[Finding]:
    for each in subnet.managers:
        if nodes[each.guid] or each.guid in plan.beside:
            continue
        name = subnet.owner(each) or f"the port of LID {each.lid}"
        text = (
            f"it runs a subnet manager ({each.state}, priority {each.priority}, GUID"
            f" {each.guid:#018x}) that is not the site's: in neither subnet_manager_hosts nor"
            " subnet_manager_beside"
        )
        yield wrong("subnet.manager", name, None, text)


def _absent(node: str, subnet: Assessment) -> Finding:
    if subnet.knows_managers:
        text = "it is not standby: its subnet manager does not answer"
        return at(wrong("subnet.manager", node, None, text), node)
    text = "whether it is standby is unknown: saquery SMIR named no manager"
    return at(unknown(node, text), node)


def _node(plan: SubnetPlan, subnet: Assessment, manager: Manager) -> str:
    """Return the node of the site that a manager runs on; empty for any other."""
    host = next((hca.at.host for hca in subnet.fabric.hcas if hca.end.guid == manager.guid), "")
    keys = {key: node for node in plan.managers for key in host_keys(node)}
    return next((keys[key] for key in host_keys(host) if key in keys), "")


class SiteNames:
    """Finds the rail that a problem of a subnet is about."""

    def __init__(self, plan: SubnetPlan, joined: Joined) -> None:
        self._hosts = {key: node for node in plan.nodes for key in host_keys(node)}
        self._spines = frozenset(plan.spines)
        self._by_hca = {port.hca.end.name: rail for rail, port in joined.ports.items()}
        self._by_port = {(port.leaf, port.hca.port): rail for rail, port in joined.ports.items()}

    def rail(self, problem: Finding) -> PlannedRail | None:
        """Return the rail at either end of the problem's link."""
        if problem.port is not None and (found := self._by_port.get((problem.part, problem.port))):
            return found
        return self._by_hca.get(problem.part)

    def node(self, problem: Finding) -> str:
        """Return the node of the site that a problem names; empty if it names none."""
        return self._hosts.get(place(problem.part).host.lower(), "")

    def is_planned(self, problem: Finding) -> bool:
        """Return whether the problem is about a node, or a spine, that the plan has."""
        return bool(self.node(problem)) or problem.part in self._spines


def findings_of_peers(
    problems: Iterable[Finding],
    names: SiteNames,
    leaves: dict[PlannedRail, str],
    planned: Iterable[Finding],
) -> Iterator[Finding]:
    """Yield what the fabric shows by comparison, where the plan has not judged it."""
    slow = {(each.node, each.rail) for each in planned if each.kind == "subnet.rate" and each.node}
    for problem in problems:
        rail = names.rail(problem)
        if problem.kind == "subnet.missing" and problem.port is None and names.is_planned(problem):
            continue
        if problem.kind == "subnet.cabling" and rail in leaves and names.node(problem):
            continue
        if rail is None:
            yield at(problem, names.node(problem))
        elif problem.kind != "subnet.rate" or (rail.node, rail.index) not in slow:
            yield at(problem, rail.node, rail.index)


def with_remedy(found: Finding) -> Finding:
    """Return a finding that is placed on the site, with what to do about it."""
    kind = word(found)
    if kind == "missing" and not found.node:
        kind = "missing switch or cable"
    if kind == "manager" and found.node:
        kind = "manager of a node"
    return replace(found, remedy=_REMEDIES[kind])


@dataclass(frozen=True)
class SiteAssessment:
    """The judged subnets of a site."""

    plan: SubnetPlan
    subnets: Sequence[Assessment]
    joined: Joined
    findings: Sequence[Finding]  # what is wrong before what is not verified

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
