"""The isolation of a fault on real nodes: groups run small all-reduces side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rdmaprov.acceptance import jobs, measure, paths, preflight
from rdmaprov.acceptance.finding import Finding
from rdmaprov.acceptance.job_run import JobRun
from rdmaprov.acceptance.jobs import GateSite
from rdmaprov.acceptance.launch import JobRunner
from rdmaprov.bandwidth import floor
from rdmaprov.bandwidth.site import site_fabric
from rdmaprov.isolation.rounds import Group, GroupOutcome, IsolationResult, plan

# A planner that does not end would test for ever.
_MAX_ROUNDS = 64
# A message of an isolation is smaller than what the floor is of.
_FLOOR_SHARE = 0.5
_WORDS = {GroupOutcome.GOOD: "passed", GroupOutcome.BAD: "failed", GroupOutcome.HANG: "hung"}


@dataclass
class GroupJudge:
    """Judges the run of a group, by those before it.

    Attributes:
        best_gb_s: the fastest group so far, by rail.

    """

    site: GateSite
    best_gb_s: dict[str, float] = field(default_factory=dict)

    def outcomes(self, ran: Mapping[Group, JobRun]) -> dict[Group, GroupOutcome]:
        """Return the outcomes of the groups of one round; the fastest of them counts for all."""
        rates = {group: self._rates(run) for group, run in ran.items()}
        for own in rates.values():
            for plane, rate in own.items():
                self.best_gb_s[plane] = max(rate, self.best_gb_s.get(plane, 0.0))
        return {group: self._outcome(group, run, rates[group]) for group, run in ran.items()}

    def _rates(self, ran: JobRun) -> dict[str, float]:
        rows = measure.rows(ran)
        own = {plane.name: measure.largest_row(rows, plane.name) for plane in ran.job.planes}
        return {plane: row.best_gb_s for plane, row in own.items() if row is not None}

    def _outcome(self, group: Group, ran: JobRun, rates: Mapping[str, float]) -> GroupOutcome:
        if not ran.good:
            return GroupOutcome.HANG
        wrong = bool(ran.events_of("wrong")) or any(paths.lossy_paths(ran))
        least = {plane: self._min_gb_s(group, plane) for plane in rates}
        return (
            GroupOutcome.BAD
            if wrong or any(rates[p] < least[p] for p in rates)
            else GroupOutcome.GOOD
        )

    def _min_gb_s(self, group: Group, plane: str) -> float:
        if self.site.backend == "gloo":
            return paths.MIN_RATIO * self.best_gb_s[plane]
        nodes = [node for node in self.site.nodes if node.name in group.nodes]
        fabric = site_fabric(nodes, preflight.gpus_per_node(self.site.facts))
        rails = len(group.rails) or fabric.rails
        return _FLOOR_SHARE * floor.derive(fabric).floor_gb_s * rails / fabric.rails


def run_isolation(
    site: GateSite, launcher: JobRunner, on_round: Callable[[str], None]
) -> IsolationResult:
    """Return what is at fault, by testing groups until the planner knows.

    Args:
        site: what is known of the nodes; their run was bad.
        launcher: runs jobs.
        on_round: is called with the estimate, then with the outcome of each round.

    """
    rails = min(len(node.compute_rails) for node in site.nodes)
    # The site does not state its leaves yet, and there is no option for repeats, so `leaves=` and
    # `repeats=` of plan() are left out: only bench/isolation.py and its test use them until then.
    search = plan([node.name for node in site.nodes], rails=rails)
    seconds = jobs.group_job(site, [site.nodes[0].name], (), 0).limit_s()
    on_round(f"isolation: {search.estimate(seconds)}; much less if no test hangs")
    judge = GroupJudge(site)
    for number in range(_MAX_ROUNDS):
        groups = search.next_round()
        if not groups:
            break
        made = [jobs.group_job(site, group.nodes, group.rails, number) for group in groups]
        ran = dict(zip(groups, launcher.run(made), strict=True))
        outcomes = judge.outcomes(ran)
        search.observe(outcomes)
        parts = (f"{_format_nodes(group)} {_WORDS[outcome]}" for group, outcome in outcomes.items())
        on_round(f"isolation round {number + 1}: {'; '.join(parts)}")
    return search.verdict()


def _format_nodes(group: Group, most: int = 4) -> str:
    more = f" and {len(group.nodes) - most} more" if len(group.nodes) > most else ""
    return f"{', '.join(group.nodes[:most])}{more}"


def findings(found: IsolationResult) -> list[Finding]:
    """Return what is at fault as findings; what is not sure is unknown."""
    made = []
    for part in found.faulty_parts:
        single = part.nodes[0] if len(part.nodes) == 1 else ""
        who = part.name or ", ".join(part.nodes)
        kind = "node pair" if part.kind == "pair" else part.kind
        what = f"isolation: bad {kind} {who}, {part.confidence} confidence: {part.why}"
        remedy = f"Drain {who}, then run rdmaprov accept SITE --limit on the other nodes"
        made.append(Finding(what, remedy, single, part.rail, level=part.kind, nodes=part.nodes))
    for node in found.unsure:
        what = "no group with this node passed, and no witness was left to test it with"
        remedy = f"Test it with a good node: rdmaprov accept SITE --limit {node},GOOD_NODE"
        made.append(Finding(what, remedy, node, proven=False))
    return made
