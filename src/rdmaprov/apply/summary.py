"""The summary of a run: what plan found pending, what apply changed."""

import difflib
from collections.abc import Iterable, Iterator, Mapping

from rdmaprov.apply.changes import change_lines
from rdmaprov.apply.events import RolePlan
from rdmaprov.apply.results import NodeResult, NodeState, ProbeResult, Results
from rdmaprov.problem import printable
from rdmaprov.runs import groups
from rdmaprov.terminal import Line


def plan_lines(results: Results, *, diffs: bool, verb: str = "apply") -> Iterator[Line]:
    """Yield the pending changes by role, then failures and counts; `verb` would make them."""
    pending = results.in_state(NodeState.PENDING, NodeState.FAILED)
    total = len(results.nodes)
    for role in _pending_roles(pending):
        yield Line(role, "bold")
        plans = {
            node.name: node.before.roles.get(role, RolePlan())
            for node in pending
            if node.before is not None and role in node.before.pending
        }
        texts = {node: _planned_changes(plan) for node, plan in plans.items()}
        yield from _group_lines(texts, total)
        if diffs:
            yield from _diff_lines(plans, total)
    yield from _failure_lines(results)
    nodes = results.nodes.values()
    interrupts = {node.name: node.planned.interrupts for node in nodes if node.planned.interrupts}
    yield from _section_lines(f"{verb} interrupts traffic", interrupts, total, "yellow")
    busy = {node.name: node.planned.busy for node in nodes if node.planned.busy}
    title = f"busy: {verb} refuses these nodes without --force-busy"
    yield from _section_lines(title, busy, total, "red")
    standing = {node.name: node.planned.standing for node in nodes if node.planned.standing}
    title = "standing programs, which do not count as busy (scheduler_standing_processes)"
    yield from _section_lines(title, standing, total, "")
    yield from _stay_lines(results)
    yield from _reboot_lines(results, f"reboot required after {verb}")
    yield Line(_counts(results), "bold")


def apply_lines(results: Results) -> Iterator[Line]:
    """Yield the changes by role, then failures and counts."""
    changed = [node for node in results.nodes.values() if node.changes]
    total = len(results.nodes)
    roles = dict.fromkeys(role for node in changed for role in node.changes)
    for role in roles:
        yield Line(role, "bold")
        texts = {
            node.name: change_lines(node.changes[role]) or ["changed"]
            for node in changed
            if role in node.changes
        }
        yield from _group_lines(texts, total)
    yield from _failure_lines(results)
    if results.interrupted:
        done = [node.name for node in results.in_state(NodeState.CHANGED, NodeState.UNCHANGED)]
        yield Line("finished", "green")
        yield Line(f"  {groups.label(done, total) if done else 'no nodes'}")
    half = {
        node.name: [node.left or f"roles started: {', '.join(node.roles)}"]
        for node in results.in_state(NodeState.INCOMPLETE)
    }
    title = "incomplete; a task that still runs on a node ends by itself"
    yield from _section_lines(title, half, total, "yellow")
    yield from _stay_lines(results)
    yield from _reboot_lines(results, "reboot required")
    yield Line(_counts(results), "bold")


def probe_lines(probed: Mapping[str, ProbeResult]) -> Iterator[Line]:
    """Yield the nodes that Ansible must run on, and why."""
    texts = {name: [one.why] for name, one in probed.items() if one.why}
    yield from _section_lines("Ansible runs on", texts, len(probed), "yellow")


def _pending_roles(nodes: Iterable[NodeResult]) -> list[str]:
    """Return the pending roles in the order in which they run."""
    surveys = [node.before for node in nodes if node.before is not None]
    pending = {role for survey in surveys for role in survey.pending}
    order = dict.fromkeys(role for survey in surveys for role in (*survey.roles, *survey.pending))
    return [role for role in order if role in pending]


def _planned_changes(plan: RolePlan) -> list[str]:
    if plan.waits:
        return [f"waits for an earlier role: {plan.waits}"]
    return change_lines(plan.changes) or ["runs; changes no setting"]


def _diff_lines(plans: Mapping[str, RolePlan], total: int) -> Iterator[Line]:
    """Yield the differences in files, equal ones once."""
    nodes: dict[tuple[str, str, str], list[str]] = {}
    for name, plan in plans.items():
        for diff in plan.diffs:
            nodes.setdefault(diff, []).append(name)
    for (path, before, after), names in nodes.items():
        yield Line(f"  {groups.label(names, total)}: {printable(path)}", "cyan")
        lines = difflib.unified_diff(
            before.splitlines(), after.splitlines(), path, path, lineterm=""
        )
        for line in lines:
            style = {"+": "green", "-": "red", "@": "cyan"}.get(line[0], "")
            yield Line("    " + printable(line.replace("\t", "    ")), style)


def _failure_lines(results: Results) -> Iterator[Line]:
    total = len(results.nodes)
    failed = {node.name: _why_failed(node) for node in results.in_state(NodeState.FAILED)}
    yield from _section_lines("failed", failed, total, "red")
    unknown = {node.name: [node.problem] for node in results.in_state(NodeState.UNKNOWN)}
    yield from _section_lines("unknown", unknown, total, "yellow")
    missing = results.in_state(NodeState.NOT_STARTED)
    own = {node.name: [node.problem] for node in missing if node.problem}
    yield from _section_lines("not started", own, total, "yellow")
    if rest := [node.name for node in missing if node.name not in own]:
        why = "" if results.interrupted or not failed else "; the run stopped after failures"
        yield Line(f"not started{why}", "yellow")
        yield Line(f"  {groups.label(rest, total)}")
    lost = {node.name: _why_unreachable(node) for node in results.in_state(NodeState.UNREACHABLE)}
    if lost:
        yield Line("unreachable", "yellow")
        for text, names in groups.group_alike(lost).items():
            yield Line(printable(f"  {groups.label(names, total)}: {text}"))


def _why_failed(node: NodeResult) -> list[str]:
    """Return why a node failed; what a survey found has a line for each role's problem."""
    survey = node.after or node.before
    found = survey.problems if survey is not None else ()
    if found and node.problem == "; ".join(found):
        return [" ".join(problem.split()) for problem in found]
    return [f"{node.failed}: {node.problem}"]


def _why_unreachable(node: NodeResult) -> str:
    """Return why a node is unreachable, with the role that this cut off."""
    during = f"connection lost during role {node.roles[-1]}: " if node.roles else ""
    return f"{during}{node.problem}"


def _reboot_lines(results: Results, title: str) -> Iterator[Line]:
    due = {node.name: node.reboot for node in results.nodes.values() if node.reboot}
    yield from _section_lines(title, due, len(results.nodes), "yellow")


def _stay_lines(results: Results) -> Iterator[Line]:
    stays = {node.name: node.stays for node in results.nodes.values() if node.stays}
    yield from _section_lines("not taken back", stays, len(results.nodes), "yellow")


def _section_lines(
    title: str, texts: Mapping[str, Iterable[str]], total: int, style: str
) -> Iterator[Line]:
    if texts:
        yield Line(title, style)
        yield from _group_lines(texts, total)


def _group_lines(texts: Mapping[str, Iterable[str]], total: int) -> Iterator[Line]:
    for text, nodes in groups.group_by_text(texts).items():
        yield Line(printable(f"  {groups.label(nodes, total)}: {text}"))


_PROBED = "unchanged (probed)"
_WORDS = {
    _PROBED: _PROBED,
    NodeState.PENDING: "pending",
    NodeState.CHANGED: "changed",
    NodeState.UNCHANGED: "unchanged",
    NodeState.FAILED: "failed",
    NodeState.UNKNOWN: "unknown",
    NodeState.UNREACHABLE: "unreachable",
    NodeState.INCOMPLETE: "incomplete",
    NodeState.NOT_STARTED: "not started",
}
_NAMED = (
    NodeState.FAILED,
    NodeState.UNKNOWN,
    NodeState.UNREACHABLE,
    NodeState.INCOMPLETE,
    NodeState.NOT_STARTED,
)


def _counts(results: Results) -> str:
    nodes = results.nodes.values()
    states = {node.name: _PROBED if node.probed else node.state for node in nodes}
    reboot = [node.name for node in nodes if node.reboot]
    more = f"; reboot required on {groups.label(reboot, len(nodes))}" if reboot else ""
    return groups.count_states(states, _WORDS, _NAMED) + more
