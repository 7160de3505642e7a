"""Judge a subnet: all that is wrong, all that is not verified, and the figures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

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
from rdmaprov.subnet.check_routes import (
    balance_problems,
    is_tree,
    loop_problems,
    lost_problems,
    lost_share,
)
from rdmaprov.subnet.credit_loops import credit_loops
from rdmaprov.subnet.fabric import SubnetGraph, TrunkHop, build, by_host
from rdmaprov.subnet.loads import PATTERNS, Imbalance, Load, Loads, rails
from rdmaprov.subnet.model import Kind, Manager, Subnet
from rdmaprov.subnet.names import Series, series
from rdmaprov.subnet.problem import unknown, wrong
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
    """A judged subnet."""

    fabric: SubnetGraph
    loads: dict[str, Load]  # by pattern; empty without tables
    loops: list[list[TrunkHop]] | None  # the credit loops; None without tables
    lost_share: float  # the share of an all-reduce's bandwidth that uneven routes cost, 0 to 1
    problems: list[Finding]  # what is wrong before what is not verified
    managers: Sequence[Manager] = ()
    knows_managers: bool = False  # whether the master was asked which others there are
    routes: Routes | None = None  # the ways of the tables; None without tables

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
        problems += _of_cables(fabric)
    problems += rate_problems(subnet, fabric)
    problems += error_problems(subnet, fabric)
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


def _of_cables(fabric: SubnetGraph) -> Iterator[Finding]:
    yield from identity_problems(fabric)
    yield from missing_problems(fabric)
    yield from gap_problems(fabric)
    yield from leaf_problems(fabric)
    yield from order_problems(fabric)
    yield from trunk_problems(fabric)


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


_MOST_ABSENT = 4  # of neighbours in a row; our choice, more are another row of names
# For each number of a series: the name, and on which switch and port it is, by device or leaf.
_Places = dict[int, tuple[str, dict[object, tuple[int, int]]]]


def gap_problems(fabric: SubnetGraph) -> Iterator[Finding]:
    """Yield hosts and switches that a series of names lacks, where free ports lack them, too.

    A gap in names alone is no evidence: numbers are left out for many reasons.
    """
    used = [set(own) for own in fabric.by_port]
    for hca in fabric.hcas:
        used[hca.switch].add(hca.port)
    for kind, rows in (("host", _hosts(fabric)), ("switch", _spines(fabric))):
        for row in rows:
            for absent, beside in _absent(row.places, used):
                name = row.series.name(absent, row.width)
                text = f"{kind} {name} is missing: between the ports of {beside} are free ones"
                yield wrong("subnet.missing", name, None, text)


@dataclass
class _Row:
    """The nodes of one series of names: each number's places, and the width of the numbers."""

    series: Series
    places: _Places
    width: int = 1


def _rows(named: Iterator[tuple[str, dict[object, tuple[int, int]]]]) -> list[_Row]:
    rows: dict[Series, _Row] = {}
    for name, places in named:
        if found := series(name):
            row = rows.setdefault(found[0], _Row(found[0], {}))
            row.places[found[1]] = (name, places)
            row.width = max(row.width, found[2])
    return list(rows.values())


def _hosts(fabric: SubnetGraph) -> list[_Row]:
    return _rows(
        (host, {device: (hca.switch, hca.port) for device, hca in own.items()})
        for host, own in by_host(fabric).items()
    )


def _spines(fabric: SubnetGraph) -> list[_Row]:
    """Return for each switch above others on which port each of these has it: the first of many."""
    return _rows(
        (end.name, _below(fabric, switch))
        for switch, end in enumerate(fabric.switches)
        if fabric.levels[switch]
    )


def _below(fabric: SubnetGraph, switch: int) -> dict[object, tuple[int, int]]:
    ports: dict[object, tuple[int, int]] = {}
    for hop in sorted(fabric.by_port[switch].values(), key=lambda hop: hop.target_port):
        if fabric.levels[hop.target] < fabric.levels[switch]:
            ports.setdefault(hop.target, (hop.target, hop.target_port))
    return ports


def _absent(places: _Places, used: list[set[int]]) -> Iterator[tuple[int, str]]:
    """Yield the numbers that are missing, with their neighbours."""
    numbers = sorted(places)
    for low, high in pairwise(numbers):
        (before, below), (after, above) = places[low], places[high]
        absent = high - low - 1
        shared = below.keys() & above.keys()
        if not 1 <= absent <= _MOST_ABSENT or not shared:
            continue
        if all(_has_room(below[each], above[each], absent, used) for each in shared):
            for number in range(low + 1, high):
                yield number, f"{before} and {after}"


def _has_room(
    low: tuple[int, int], high: tuple[int, int], absent: int, used: list[set[int]]
) -> bool:
    """Return whether two ports of one switch have as many free ports between them, at least."""
    if low[0] != high[0]:
        return False
    first, last = sorted((low[1], high[1]))
    return sum(port not in used[low[0]] for port in range(first + 1, last)) >= absent


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
            text = f"the master knows a manager at LID {lid}, which sminfo.txt does not list"
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
