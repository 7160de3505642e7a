"""Judge the routing engine that a site expects: by the master's log, and by the tables.

No tool of infiniband-diags names the engine. Tables can contradict it, and can never prove it: on
a two-level fat tree those of minhop, updn and ftree may be equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rdmaprov.finding.finding import Finding
from rdmaprov.site_subnet.engine_log import EngineLog
from rdmaprov.site_subnet.plan import SubnetPlan
from rdmaprov.subnet.check_routes import is_tree
from rdmaprov.subnet.fabric import Hca, SubnetGraph, TrunkHop, distances
from rdmaprov.subnet.judge import Assessment
from rdmaprov.subnet.problem import at, unknown, wrong
from rdmaprov.subnet.routes import Routes

_VARIABLE = "fabric_routing_engine"
# They never go up after they went down: opensm(8), UPDN and Fat-tree routing algorithms.
_UP_DOWN = frozenset({"updn", "ftree", "ar_updn", "ar_ftree"})
# They take a way of the fewest hops: opensm(8), Min Hop algorithm.
_SHORTEST = frozenset({"minhop"})


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
