"""Judge the subnet managers: one master, and who stands by."""

from __future__ import annotations

from collections.abc import Iterator

from rdmaprov.finding.finding import Finding
from rdmaprov.subnet.model import Subnet
from rdmaprov.subnet.problem import wrong


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
