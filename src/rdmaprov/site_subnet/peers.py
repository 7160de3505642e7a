"""What the fabric alone shows, with the names of the site; less what the plan knows better."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rdmaprov.finding.finding import Finding
from rdmaprov.site_subnet.join import Joined
from rdmaprov.site_subnet.plan import PlannedRail, SubnetPlan, host_keys
from rdmaprov.subnet.names import place
from rdmaprov.subnet.problem import at


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
    """Yield what the fabric shows by comparison, where the plan has not judged it.

    Args:
        leaves: the switch on which each rail is expected, where the plan knows it.
    """
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
