"""The stages `state` and `preflight`, before any rank runs.

`state` names nodes whose settings nobody has validated since they last changed; `preflight` reads
each node's facts, and finds the node at which ranks join.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from rdmaprov.acceptance.ask.nodes import Nodes
from rdmaprov.acceptance.options import Options
from rdmaprov.acceptance.preflight import gpus, readings
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.stage_report import StageReport, leave_out
from rdmaprov.boundary import Document
from rdmaprov.finding.finding import Finding
from rdmaprov.inventory import Node
from rdmaprov.problem import printable
from rdmaprov.runs.groups import fold_names
from rdmaprov.runs.last_word import FAILED, PASSED, STALE, Word
from rdmaprov.words import quantity

# Each time, nodes that do not answer the first one are left out; then another may be the first.
_REACH_TRIES = 3
_NEVER = "no complete validate of it is known"
_WHY = {
    FAILED: "its settings failed in {run}",
    STALE: "apply changed it in {run}, and no complete validate has passed since",
}
_UNKNOWN = "whether its settings are right is unknown after {run}"


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


def run_state(
    words: Mapping[str, Word] | None, nodes: Sequence[str], is_limited: bool = False
) -> StageReport:
    """Return the stage's report; nodes that are not known to be right are left out.

    Args:
        words: the last word about each node; None if nobody is to be asked for it.
        is_limited: the site has other nodes, too.
    """
    if words is None:
        return StageReport("state", "not asked for (--ignore-validate)", is_skipped=True)
    why = {name: _why(words.get(name)) for name in nodes}
    bad = {name: reason for name, reason in why.items() if reason}
    wrong = {why[name] for name in bad if name in words and words[name].state == FAILED}
    report = StageReport(
        "state", findings=_findings(bad, 0 if is_limited else len(nodes), wrong), left_out=bad
    )
    report.said = f"{quantity(len(nodes), 'node')}: {len(nodes) - len(bad)} validated"
    return report


def other_boots(
    words: Mapping[str, Word] | None, facts: Mapping[str, Document], is_limited: bool = False
) -> list[Finding]:
    """Return the nodes that rebooted since they were validated; arguments as of `run_state`."""
    bad = {
        name: f"it rebooted after {word.run}"
        for name, word in (words or {}).items()
        if word.state == PASSED and name in facts and facts[name].get("boot_id", "") != word.boot_id
    }
    return _findings(bad, 0 if is_limited else len(facts))


def wrong_state(node: str, why: str) -> Finding:
    """Return the finding that a node is not measured because its state is wrong."""
    return _findings({node: why}, 0, {why})[0]


def _why(word: Word | None) -> str:
    """Return why a node is not measured; empty if its last word is that it passed."""
    if word is None:
        return _NEVER
    if word.lost:
        return f"{word.run} could not reach it: {printable(word.lost)}"
    return "" if word.state == PASSED else _WHY.get(word.state, _UNKNOWN).format(run=word.run)


def _findings(why: Mapping[str, str], of: int, wrong: Collection[str] = ()) -> list[Finding]:
    """Return one finding for each reason, with one command for all that have it.

    Args:
        of: how many nodes the site has; 0: more than these.
        wrong: the reasons by which a setting is wrong; by the others nobody knows.
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for name, reason in why.items():
        alike[reason].append(name)
    found = []
    for reason, names in alike.items():
        limit = "" if len(names) == of else f" --limit '{fold_names(names)}'"
        run = f"rdmaprov validate SITE{limit}"
        is_wrong = reason in wrong
        first = f"rdmaprov apply SITE{limit}, then {run}" if is_wrong else run
        remedy = f"Run: {first}; or pass --ignore-validate"
        kind = "state.wrong" if is_wrong else "state.unproven"
        node = names[0] if len(names) == 1 else ""
        what = f"not measured: {reason}"
        found.append(
            Finding(kind, what, remedy, node, proven=False, level="node", nodes=tuple(names))
        )
    return found
