"""The stage `preflight`: each node's facts, and the node at which ranks join."""

from __future__ import annotations

from collections.abc import Sequence

from rdmaprov.acceptance.ask.nodes import Nodes
from rdmaprov.acceptance.options import Options
from rdmaprov.acceptance.preflight import gpus, readings
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.stage_report import StageReport, leave_out
from rdmaprov.inventory import Node
from rdmaprov.words import quantity

# Each time, nodes that do not answer the first one are left out; then another may be the first.
_REACH_TRIES = 3


def run_preflight(
    result: GateResult, connection: Nodes, nodes: Sequence[Node], options: Options
) -> tuple[StageReport, GateSite | None]:
    """Return the stage's report, and the nodes that can run together; None if there are none.

    Args:
        result: gets what nodes say of themselves, and the backend.
    """
    facts, backend, found = readings.read_facts(connection, nodes, options.backend)
    result.facts, result.backend = facts, backend
    report = StageReport("preflight", findings=found)
    report.left_out = leave_out(found, tuple(node.name for node in nodes))
    report.notes = gpus.slow_notes(facts)
    able = [node for node in nodes if node.name in facts]
    goes_on = options.keep_going or not found
    site = _join(connection, able, result, options, report) if goes_on else None
    count = len(nodes) - len(report.left_out)
    report.said = f"{quantity(len(nodes), 'node')}: {count} ready for {backend}"
    return report, site


def _join(
    connection: Nodes,
    nodes: Sequence[Node],
    result: GateResult,
    options: Options,
    report: StageReport,
) -> GateSite | None:
    """Return the nodes that reach the first of them; report those that do not."""
    backend = result.backend
    for _ in range(_REACH_TRIES):
        there = [node for node in nodes if node.name not in report.left_out]
        if len(there) < 2:
            return None
        own = {node.name: result.facts[node.name] for node in there}
        rendezvous, found, notes = readings.find_rendezvous(connection, there, own, backend)
        report.notes = [*gpus.slow_notes(result.facts), *notes]
        if rendezvous is not None:
            return GateSite(tuple(there), own, backend, rendezvous)
        report.findings += found
        lost = leave_out(found, tuple(own))
        report.left_out |= lost
        if not lost or not options.keep_going:
            return None
    return None
