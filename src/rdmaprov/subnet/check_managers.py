"""Judge the subnet managers: one master, and who stands by."""

from __future__ import annotations

from collections.abc import Iterator

from rdmaprov.finding.finding import Finding
from rdmaprov.subnet.model import Kind, Subnet
from rdmaprov.subnet.problem import unknown, wrong


def manager_problems(subnet: Subnet) -> Iterator[Finding]:
    """Yield a problem unless exactly one manager is the master."""
    masters = sorted(
        {each.guid: each for each in subnet.managers if each.state == "MASTER"}.items()
    )
    if len(masters) > 1:
        where = ", ".join(f"LID {each.lid} ({guid:#018x})" for guid, each in masters)
        yield wrong("subnet.manager", "subnet manager", None, f"{len(masters)} masters: {where}")
    elif not masters and subnet.managers:
        other = subnet.managers[0]
        yield wrong(
            "subnet.manager",
            "subnet manager",
            None,
            f"no master: the manager at LID {other.lid} is in state {other.state}",
        )
    elif not masters and subnet.manager_failed:
        yield wrong(
            "subnet.manager", "subnet manager", None, f"no manager answers: {subnet.manager_failed}"
        )


def saved_manager_problems(subnet: Subnet) -> Iterator[Finding]:
    """Yield managers of saved texts that are on no port, or known to the master and silent."""
    answered = {each.lid for each in subnet.managers}
    for lid in subnet.known_managers or ():
        if answered and lid not in answered:
            text = f"the master knows a manager at LID {lid}, of which sminfo.txt says nothing"
            yield unknown("subnet manager", text)
    ends = [end for cable in subnet.discovery.cables for end in (cable.near, cable.far)]
    if not ends or subnet.discovery.is_cut:
        return
    ends += subnet.discovery.free
    guids = {end.guid for end in ends}
    names = {end.lid: end for end in ends if end.lid}
    for each in {manager.guid: manager for manager in subnet.managers}.values():
        owner = names.get(each.lid)
        # The GUID of a switch's port 0 need not be that of its node.
        if each.guid in guids or (owner is not None and owner.kind is Kind.SWITCH):
            continue
        whose = f"; LID {each.lid} is that of {owner.name}" if owner is not None else ""
        text = f"the manager at LID {each.lid} (GUID {each.guid:#018x}, {each.state}) is on no port"
        at = f" of this fabric{whose}: texts of different fabrics or times?"
        yield unknown("subnet manager", text + at)
