"""Judge the subnet managers against the plan: the site's, the first one as the master."""

from __future__ import annotations

from collections.abc import Iterator

from rdmaprov.finding.finding import Finding
from rdmaprov.site_subnet.plan import SubnetPlan, host_keys
from rdmaprov.subnet.judge import Assessment
from rdmaprov.subnet.model import Manager
from rdmaprov.subnet.problem import at, unknown, wrong


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
        text = "it does not stand by: no subnet manager of it answers"
        return at(wrong("subnet.manager", node, None, text), node)
    text = "whether it stands by is unknown: saquery SMIR named no manager"
    return at(unknown(node, text), node)


def _node(plan: SubnetPlan, subnet: Assessment, manager: Manager) -> str:
    """Return the node of the site that a manager runs on; empty for any other."""
    host = next((hca.at.host for hca in subnet.fabric.hcas if hca.end.guid == manager.guid), "")
    keys = {key: node for node in plan.managers for key in host_keys(node)}
    return next((keys[key] for key in host_keys(host) if key in keys), "")
