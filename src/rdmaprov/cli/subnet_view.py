"""A judged InfiniBand subnet, as lines and as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from rdmaprov.problem import printable
from rdmaprov.subnet.fabric import SubnetGraph, TrunkHop
from rdmaprov.subnet.judge import Assessment
from rdmaprov.subnet.loads import Load
from rdmaprov.subnet.problem import SubnetProblem

# Problems of one kind that are printed one by one; --json has all.
_MOST_SHOWN = 20


def document(assessment: Assessment) -> dict[str, Any]:
    """Return the object of --json; docs/subnet.md defines each key."""
    fabric = assessment.fabric
    return {
        "verdict": assessment.verdict,
        "switches": len(fabric.switches),
        "hcas": _hca_count(fabric),
        "links": len(fabric.hops) // 2 + len(fabric.hcas),
        "patterns": {name: _pattern(fabric, load) for name, load in assessment.loads.items()},
        "lost_share": round(assessment.lost_share, 3) if assessment.loads else None,
        "credit_loops": _loops(assessment),
        "problems": [
            {
                "level": each.level,
                "name": printable(each.name),
                "port": each.port,
                "text": printable(each.text),
                "kind": each.kind,
            }
            for each in assessment.problems
        ],
    }


def _hca_count(fabric: SubnetGraph) -> int:
    """Return the number of adapters: ports of one have the same name and neighbouring GUIDs."""
    return len({(hca.end.name, hca.end.guid - hca.end.port) for hca in fabric.hcas})


def _pattern(fabric: SubnetGraph, load: Load) -> dict[str, Any]:
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


def lines(assessment: Assessment) -> Iterator[str]:
    """Yield the problems, the load of each pattern, and the verdict in the last line."""
    yield from _problem_lines(assessment.problems)
    fabric = assessment.fabric
    crossed = {name: load for name, load in assessment.loads.items() if load.worst}
    if crossed:
        yield "pattern     busiest/mean  excess  idle links  busiest link"
    for name, load in crossed.items():
        found = _pattern(fabric, load)
        at = found["busiest"]
        where = f"{at['name']} port {at['port']} → {at['to']} port {at['to_port']}"
        yield (
            f"{name:<12}{found['max_over_mean']:>12.1f}  {found['excess']:>6.1f}"
            f"  {found['idle_links']:>10,}  {where}, {at['flows']:,} flows"
        )
    head = document(assessment)
    loops = assessment.loops
    credit = f", {len(loops)} credit loops" if loops is not None else ""
    yield (
        f"{assessment.verdict}: {head['switches']:,} switches, {head['hcas']:,} HCAs,"
        f" {head['links']:,} links{credit}"
    )


def _problem_lines(problems: list[SubnetProblem]) -> Iterator[str]:
    kinds: dict[tuple[str, str], list[SubnetProblem]] = defaultdict(list)
    for each in problems:
        kinds[each.level, each.kind].append(each)
    for found in kinds.values():
        for each in found[:_MOST_SHOWN]:
            port = "" if each.port is None else f" port {each.port}"
            at = "" if each.text.startswith(each.name) else f"{each.name}{port}: "
            yield printable(f"{each.level}: {each.kind}: {at}{each.text}")
        if len(found) > _MOST_SHOWN:
            yield f"… and {len(found) - _MOST_SHOWN:,} more of this kind; --json has all"
