"""Which routing engine wrote the tables last: the log of the master's opensm alone says it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rdmaprov.site_subnet.hosts import FabricHost
from rdmaprov.site_subnet.join import Joined, join
from rdmaprov.site_subnet.plan import PlannedRail, SubnetPlan
from rdmaprov.subnet.judge import Assessment

# opensm writes it at each change of the tables: "… ucast_mgr_process: ftree tables configured".
_TABLES = re.compile(r"(\S+) tables configured on all switches\s*$")
_LIMIT_S = 30.0


@dataclass(frozen=True)
class EngineLog:
    """What the log of a subnet's master says.

    Args:
        engine: the routing engine of the last tables; empty if it is not known.
        node: where the master runs; empty if it is no manager of the site.
    """

    engine: str = ""
    why: str = ""
    node: str = ""


def engine_logs(
    plan: SubnetPlan, subnets: Sequence[Assessment], host_of: Callable[[str], FabricHost | None]
) -> list[EngineLog]:
    """Return for each subnet what its master's log says; none if the site expects no engine.

    Args:
        host_of: returns a node to ask; None for one that is not reached.
    """
    if not plan.engine:
        return []
    joined = join(plan, [each.fabric for each in subnets])
    return [_engine_log(plan, joined, each, host_of) for each in subnets]


def _engine_log(
    plan: SubnetPlan,
    joined: Joined,
    subnet: Assessment,
    host_of: Callable[[str], FabricHost | None],
) -> EngineLog:
    rail = _master(joined, subnet)
    if rail is None or rail.node not in plan.managers:
        return EngineLog(why="the master is not the site's (subnet_manager_hosts)")
    host = host_of(rail.node)
    if host is None:
        return EngineLog(why=f"the log is on {rail.node}, which is not asked", node=rail.node)
    # Of the role subnet_manager, which runs one manager for each subnet.
    path = f"/var/log/rdmaprov-opensm-rail{rail.index}/opensm.log"
    words = ("sh", "-c", f"grep -a 'tables configured' {path} | tail -n 1")
    output = host.run(words, _LIMIT_S)
    found = _TABLES.search(output.text)
    if output.rc is None or found is None:
        return EngineLog(why=f"{path} on {rail.node} names no engine", node=rail.node)
    return EngineLog(found[1], node=rail.node)


def _master(joined: Joined, subnet: Assessment) -> PlannedRail | None:
    """Return the rail whose port is the master's; None unless there is one master."""
    masters = [each.guid for each in subnet.managers if each.state == "MASTER"]
    if len(masters) != 1:
        return None
    found = (rail for rail, port in joined.ports.items() if port.hca.end.guid == masters[0])
    return next(found, None)
