"""Which routing engine wrote the tables last: the log of the master's opensm alone says it.

No tool of infiniband-diags names the engine. Tables can contradict it, and can never prove it: on
a two-level fat tree those of minhop, updn and ftree may be equal.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rdmaprov.finding.finding import Finding
from rdmaprov.site_subnet.hosts import FabricHost
from rdmaprov.site_subnet.join import Joined, join
from rdmaprov.site_subnet.plan import PlannedRail, SubnetPlan
from rdmaprov.subnet.check_routes import is_tree
from rdmaprov.subnet.fabric import Hca, SubnetGraph, TrunkHop, distances
from rdmaprov.subnet.judge import Assessment
from rdmaprov.subnet.problem import at, unknown, wrong
from rdmaprov.subnet.routes import Routes

# opensm writes it at each change of the tables: "… ucast_mgr_process: ftree tables configured".
_TABLES = re.compile(r"(\S+) tables configured on all switches\s*$")
_LIMIT_S = 30.0
_VARIABLE = "fabric_routing_engine"
# They never go up after they went down: opensm(8), UPDN and Fat-tree routing algorithms.
_UP_DOWN = frozenset({"updn", "ftree", "ar_updn", "ar_ftree"})
# They take a way of the fewest hops: opensm(8), Min Hop algorithm.
_SHORTEST = frozenset({"minhop"})


@dataclass(frozen=True)
class EngineLog:
    """What the log of a subnet's master says."""

    engine: str = ""  # the routing engine of the last tables; empty if it is not known
    why: str = ""
    node: str = ""  # where the master runs; empty if it is no manager of the site


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


def engine_findings(plan: SubnetPlan, subnet: Assessment, log: EngineLog) -> Iterator[Finding]:
    """Yield that another engine wrote the tables, or that it is not known which one did."""
    if subnet.routes is None:
        return  # that there are no tables is a problem already
    odd = _contradiction(plan.engine, subnet.fabric, subnet.routes)
    if odd:
        text = f"the tables are not those of {plan.engine}: {odd}"
        yield wrong("subnet.engine", _VARIABLE, None, text)
    elif log.engine and log.engine != plan.engine:
        text = f"{log.engine} wrote the last tables, expected {plan.engine} ({_VARIABLE})"
        yield at(wrong("subnet.engine", log.node, None, text), log.node)
    elif not log.engine:
        text = (
            f"whether {plan.engine} wrote the tables: they do not contradict it, and no tool tells"
            f" it; {log.why}"
        )
        yield unknown(_VARIABLE, text)


def _contradiction(engine: str, fabric: SubnetGraph, routes: Routes) -> str:
    """Return a route that the engine does not make; empty if there is none."""
    if engine not in _UP_DOWN | _SHORTEST or not is_tree(fabric):
        return ""
    sources = [leaf for leaf in fabric.leaves() if routes.sources[leaf]]
    ends = {target.switch for target in routes.targets} if engine in _SHORTEST else ()
    far = len(fabric.by_port) + 1
    fewest = {switch: distances(fabric.by_port, [switch], far) for switch in ends}
    for target in routes.targets:
        for source in sources:
            way = routes.way(source, target) or []
            if engine in _UP_DOWN and _goes_up_again(fabric, way):
                return f"{_way(fabric, source, target, way)} goes up again after it went down"
            if engine in _SHORTEST and len(way) > (least := fewest[target.switch][source]):
                said = f"has {len(way)} hops, and {least} would do"
                return f"{_way(fabric, source, target, way)} {said}"
    return ""


def _goes_up_again(fabric: SubnetGraph, way: Sequence[TrunkHop]) -> bool:
    ups = [fabric.is_up(hop) for hop in way]
    return any(not before and after for before, after in pairwise(ups))


def _way(fabric: SubnetGraph, source: int, target: Hca, way: Sequence[TrunkHop]) -> str:
    names = [fabric.label(number) for number in (source, *(hop.target for hop in way))]
    return f"the way {' → '.join(names)} to {target.end.name}"
