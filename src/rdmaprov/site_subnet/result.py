"""The judged subnets of a site as data, for results.json."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from rdmaprov.finding.finding import Finding
from rdmaprov.problem import printable
from rdmaprov.site_subnet.judge_site import SiteAssessment
from rdmaprov.site_subnet.plan import PlannedRail
from rdmaprov.subnet.as_data import document, problem_data

_FAILED, _UNKNOWN, _PASSED = "failed", "unknown", "passed"


def subnets_data(site: SiteAssessment, devices: list[str]) -> list[dict[str, Any]]:
    """Return each subnet as `explain subnet --json` has it, without the problems."""
    found = []
    for device, assessment in zip(devices, site.subnets, strict=True):
        data = document(assessment)
        del data["problems"], data["verdict"]
        found.append({"device": device, **data})
    return found


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
