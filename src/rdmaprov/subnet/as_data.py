"""A judged subnet as data, for --json and results.json; docs/subnet.md defines each key."""

from dataclasses import asdict
from typing import Any

from rdmaprov.finding.finding import Finding
from rdmaprov.problem import printable
from rdmaprov.subnet.fabric import SubnetGraph, TrunkHop
from rdmaprov.subnet.judge import Assessment
from rdmaprov.subnet.loads import Load
from rdmaprov.subnet.problem import level, word


def document(assessment: Assessment) -> dict[str, Any]:
    """Return the object of --json; docs/subnet.md defines each key."""
    fabric = assessment.fabric
    return {
        "verdict": assessment.verdict,
        "switches": len(fabric.switches),
        # Ports of one adapter have the same name and neighbouring GUIDs.
        "hcas": len({(hca.end.name, hca.end.guid - hca.end.port) for hca in fabric.hcas}),
        "links": len(fabric.hops) // 2 + len(fabric.hcas),
        "patterns": {name: pattern_data(fabric, load) for name, load in assessment.loads.items()},
        "lost_share": round(assessment.lost_share, 3) if assessment.loads else None,
        "credit_loops": _loops(assessment),
        "problems": [problem_data(each) for each in assessment.problems],
    }


def managers_data(assessment: Assessment) -> list[dict[str, Any]]:
    """Return the managers as data; a name is empty where no node has the GUID."""
    return [
        asdict(each) | {"guid": f"{each.guid:#018x}", "name": printable(assessment.owner(each))}
        for each in assessment.managers
    ]


def problem_data(problem: Finding) -> dict[str, Any]:
    """Return a problem as data."""
    return {
        "level": level(problem),
        "name": printable(problem.part),
        "port": problem.port,
        "text": printable(problem.what),
        "kind": word(problem),
        "finding": problem.kind,
        "values": dict(problem.values),
    }


def pattern_data(fabric: SubnetGraph, load: Load) -> dict[str, Any]:
    """Return the load of a pattern as data."""
    busiest = load.busiest()
    over = load.max_over_mean()
    return {
        "max_over_mean": None if over is None else round(over, 3),
        "excess": round(load.worst.excess, 3) if load.worst else 1.0,
        "excess_above": round(load.worst_above.excess, 3) if load.worst_above else 1.0,
        "excess_down": round(load.worst_down.excess, 3) if load.worst_down else 1.0,
        "idle_links": load.idle() if over is not None else 0,
        "busiest": _link(fabric, busiest, load) if busiest else None,
    }


def _link(fabric: SubnetGraph, hop: TrunkHop, load: Load) -> dict[str, Any]:
    return {
        "name": printable(fabric.label(hop.source)),
        "port": hop.port,
        "to": printable(fabric.label(hop.target)),
        "to_port": hop.target_port,
        "flows": load.flows[hop.number],
    }


def _loops(assessment: Assessment) -> list[list[str]] | None:
    if assessment.loops is None:
        return None
    fabric = assessment.fabric
    return [
        [printable(f"{fabric.label(hop.source)} port {hop.port}") for hop in loop]
        for loop in assessment.loops
    ]
