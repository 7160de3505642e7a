"""Judge a subnet: all that is wrong, all that is not verified, and the figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rdmaprov.exit_codes import ExitCode
from rdmaprov.finding.finding import Finding, exit_code
from rdmaprov.subnet.check_cables import (
    identity_problems,
    leaf_problems,
    missing_problems,
    order_problems,
    trunk_problems,
)
from rdmaprov.subnet.check_errors import error_problems, rate_problems
from rdmaprov.subnet.check_gaps import gap_problems
from rdmaprov.subnet.check_managers import manager_problems, saved_manager_problems
from rdmaprov.subnet.check_routes import (
    balance_problems,
    is_tree,
    loop_problems,
    lost_problems,
    lost_share,
)
from rdmaprov.subnet.credit_loops import credit_loops
from rdmaprov.subnet.fabric import SubnetGraph, TrunkHop, build
from rdmaprov.subnet.loads import PATTERNS, Imbalance, Load, Loads, rails
from rdmaprov.subnet.model import Manager, Subnet
from rdmaprov.subnet.problem import unknown
from rdmaprov.subnet.routes import Routes


class SubnetVerdict(StrEnum):
    """What a subnet is; unknown if nothing is wrong and something was not verified."""

    HEALTHY = "healthy"
    WRONG = "wrong"
    UNKNOWN = "unknown"


_VERDICTS = {
    ExitCode.OK: SubnetVerdict.HEALTHY,
    ExitCode.FAILED: SubnetVerdict.WRONG,
    ExitCode.UNKNOWN: SubnetVerdict.UNKNOWN,
}


@dataclass(frozen=True)
class Assessment:
    """A judged subnet.

    Attributes:
        loads: by pattern; empty without tables.
        loops: the credit loops; None without tables.
        lost_share: the share of an all-reduce's bandwidth that uneven routes cost, 0 to 1.
        problems: what is wrong before what is not verified.
        knows_managers: whether the master was asked which others there are.
        routes: the ways of the tables; None without tables.
    """

    fabric: SubnetGraph
    loads: dict[str, Load]
    loops: list[list[TrunkHop]] | None
    lost_share: float
    problems: list[Finding]
    managers: Sequence[Manager] = ()
    knows_managers: bool = False
    routes: Routes | None = None

    def owner(self, manager: Manager) -> str:
        """Return the name of the node that a manager runs on, empty if none has its GUID."""
        ends = [*(hca.end for hca in self.fabric.hcas), *self.fabric.switches]
        return next((end.name for end in ends if end.guid == manager.guid), "")

    @property
    def verdict(self) -> SubnetVerdict:
        """Return the verdict: any fault is wrong, whatever else is unknown."""
        return _VERDICTS[exit_code(self.problems)]


def judge(subnet: Subnet, *, is_saved: bool = False) -> Assessment:
    """Return what is wrong with a subnet, and its loads; `is_saved` texts may be of several."""
    fabric = build(subnet.discovery)
    routes = Routes(fabric, subnet.tables)
    problems = [unknown(name, f"{name} {why}") for name, why in subnet.not_verified]
    problems += manager_problems(subnet)
    problems += saved_manager_problems(subnet) if is_saved else ()
    loads: dict[str, Load] = {}
    lost = 0.0
    loops = None
    if subnet.discovery.cables:
        problems += _of_cables(subnet, fabric)
    if subnet.discovery.cables and subnet.tables:
        problems += _unread(routes)
        problems += lost_problems(routes, routes.lost())
        counter = Loads(routes)
        loads = _loads(counter, routes)
        loops = credit_loops(routes)
        problems += loop_problems(fabric, loops)
        uneven = _balance(fabric, counter.of_tables(), loads, problems)
        problems += uneven
        lost = lost_share(loads) if uneven else 0.0
    problems.sort(key=lambda each: not each.proven)
    known = bool(subnet.known_managers)
    ways = routes if loads else None
    return Assessment(fabric, loads, loops, lost, problems, subnet.managers, known, ways)


def _balance(
    fabric: SubnetGraph,
    tables: dict[int, Imbalance],
    loads: dict[str, Load],
    problems: list[Finding],
) -> list[Finding]:
    """Return uneven routes; without a tree of levels, no load is fair."""
    causes = {"subnet.cabling", "subnet.missing", "subnet.routes"}
    is_explained = any(each.kind in causes for each in problems)
    return list(balance_problems(fabric, tables, loads, is_explained)) if is_tree(fabric) else []


def _of_cables(subnet: Subnet, fabric: SubnetGraph) -> Iterator[Finding]:
    yield from identity_problems(fabric)
    yield from missing_problems(fabric)
    yield from gap_problems(fabric)
    yield from leaf_problems(fabric)
    yield from order_problems(fabric)
    yield from trunk_problems(fabric)
    yield from rate_problems(subnet, fabric)
    yield from error_problems(subnet, fabric)


def _unread(routes: Routes) -> Iterator[Finding]:
    """Yield the switches of which no table was read."""
    for switch in routes.without_table:
        name = routes.fabric.label(switch)
        yield unknown(name, f"dump_fts.txt has no table of {name}")


def _loads(loads: Loads, routes: Routes) -> dict[str, Load]:
    found = rails(routes.fabric)
    by_pattern = {
        name: loads.of(flow for rail in found for flow in pattern(rail))
        for name, pattern in PATTERNS.items()
    }
    return {**by_pattern, "all_to_all": loads.of_all_to_all()}
