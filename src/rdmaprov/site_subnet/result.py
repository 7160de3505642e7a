"""The judged subnets of a site as data, for results.json."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from rdmaprov.finding.finding import Finding
from rdmaprov.problem import printable
from rdmaprov.site_subnet.judge_site import SiteAssessment
from rdmaprov.site_subnet.plan import PlannedRail
from rdmaprov.subnet.as_data import document, problem_data
from rdmaprov.subnet.judge import Assessment
from rdmaprov.subnet.loads import Load
from rdmaprov.subnet.names import natural

# A ring per rail that crosses a spine with each hop; where nothing of it crosses, all to all.
_PATTERNS = ("ringx", "all_to_all")
_FAILED, _UNKNOWN, _PASSED = "failed", "unknown", "passed"


@dataclass(frozen=True)
class LevelLoad:
    """The links from the switches of one level to those of the next.

    Args:
        below: the switches nearer to the HCAs, by name.
        cables: for each switch above, how many links each switch below has to it.
        busiest: for each switch above, the flows on the busiest of these links, upwards.
        flows: for each switch above, the flows on all of them.
    """

    pattern: str
    below: tuple[str, ...]
    above: tuple[str, ...]
    cables: tuple[tuple[int, ...], ...]
    busiest: tuple[tuple[int, ...], ...]
    flows: tuple[tuple[int, ...], ...]


def level_loads(assessment: Assessment) -> list[LevelLoad]:
    """Return the loads between each two levels that links connect, from the leaves up."""
    found = _pattern(assessment)
    if found is None:
        return []
    fabric = assessment.fabric
    pairs: dict[tuple[int, int], list[int]] = defaultdict(list)
    for hop in fabric.hops:
        if fabric.is_up(hop):
            pairs[fabric.levels[hop.source], fabric.levels[hop.target]].append(hop.number)
    return [_level(assessment, *found, hops) for _, hops in sorted(pairs.items())]


def _pattern(assessment: Assessment) -> tuple[str, Load] | None:
    for name in _PATTERNS:
        load = assessment.loads.get(name)
        if load is not None and load.worst:
            return name, load
    return None


def _level(assessment: Assessment, pattern: str, load: Load, numbers: list[int]) -> LevelLoad:
    fabric = assessment.fabric
    cables: Counter[tuple[str, str]] = Counter()
    busiest: Counter[tuple[str, str]] = Counter()
    flows: Counter[tuple[str, str]] = Counter()
    for number in numbers:
        hop = fabric.hops[number]
        key = fabric.label(hop.target), fabric.label(hop.source)
        carried = load.flows.get(number, 0)
        cables[key] += 1
        busiest[key] = max(busiest[key], carried)
        flows[key] += carried
    above = tuple(sorted({top for top, _ in cables}, key=natural))
    below = tuple(sorted({bottom for _, bottom in cables}, key=natural))

    def matrix(counts: Counter[tuple[str, str]]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(counts[top, bottom] for bottom in below) for top in above)

    return LevelLoad(pattern, below, above, matrix(cables), matrix(busiest), matrix(flows))


def subnets_data(site: SiteAssessment, devices: list[str]) -> list[dict[str, Any]]:
    """Return each subnet as `explain subnet --json` has it, without the problems."""
    found = []
    for device, assessment in zip(devices, site.subnets, strict=True):
        data = document(assessment)
        del data["problems"], data["verdict"]
        loads = [asdict(level) for level in level_loads(assessment)]
        found.append({"device": device, **data, "loads": _printable(loads)})
    return found


def _printable(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return data with names of switches as a page can show them."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {key: _printable(each) for key, each in value.items()}
    return [_printable(each) for each in value] if isinstance(value, (list, tuple)) else value


def findings_data(site: SiteAssessment) -> list[dict[str, Any]]:
    """Return each problem, with the node and the rails that it is about."""
    return [
        {
            **problem_data(each),
            "node": each.node,
            "rails": _numbers(site, each),
            "remedy": each.remedy,
        }
        for each in site.findings
    ]


def nodes_data(site: SiteAssessment) -> dict[str, Any]:
    """Return each node with its rails: where each is, and whether it passed."""
    states = _states(site)
    rails: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for rail in site.plan.rails:
        rails[rail.node].append(_rail(site, rail, states[rail]))
    return {
        node: {"state": _worst(each["state"] for each in own), "rails": own}
        for node, own in rails.items()
    }


def _rail(site: SiteAssessment, rail: PlannedRail, state: str) -> dict[str, Any]:
    port = site.joined.ports.get(rail)
    return {
        "rail": rail.index,
        "state": state,
        "device": printable(port.hca.at.device) if port else rail.device,
        "leaf": printable(port.leaf) if port else None,
        "port": port.hca.port if port else None,
        "gbps": port.hca.cable.gbps if port else None,
    }


def _states(site: SiteAssessment) -> dict[PlannedRail, str]:
    """Return the state of each rail: what is not there is failed or unknown, with a reason."""
    states = {rail: _PASSED if rail in site.joined.ports else _UNKNOWN for rail in site.plan.rails}
    by_place = {(rail.node, rail.index): rail for rail in site.plan.rails}
    for finding in sorted(site.findings, key=lambda each: each.proven):
        for rail in _rails_of(site, finding, by_place):
            states[rail] = _FAILED if finding.proven else _UNKNOWN
    return states


def _rails_of(
    site: SiteAssessment, finding: Finding, by_place: dict[tuple[str, int], PlannedRail]
) -> list[PlannedRail]:
    """Return the rails that a finding is about; those behind a missing leaf, too."""
    if finding.node:
        return [by_place[finding.node, index] for index in _numbers(site, finding)]
    if finding.kind != "subnet.missing":
        return []
    gone = [rail for rail in site.plan.rails if rail not in site.joined.ports]
    return [rail for rail in gone if rail.leaf == finding.part]


def _numbers(site: SiteAssessment, finding: Finding) -> list[int]:
    """Return the rails of the node that a finding is about."""
    if finding.kind == "subnet.node":
        return [rail.index for rail in site.plan.rails if rail.node == finding.node]
    return [] if finding.rail is None else [finding.rail]


def _worst(states: Iterable[str]) -> str:
    found = set(states)
    return next(state for state in (_FAILED, _UNKNOWN, _PASSED) if state in found)
