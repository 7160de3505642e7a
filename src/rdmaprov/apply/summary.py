"""A run in words: what a plan would change, what an apply did."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping

from rdmaprov.apply.changes import change_lines
from rdmaprov.apply.events import RolePlan
from rdmaprov.apply.results import NodeResult, NodeState, ProbeResult, Results
from rdmaprov.problem import printable
from rdmaprov.runs import groups
from rdmaprov.terminal import Line


def plan_lines(results: Results, *, diffs: bool) -> Iterator[Line]:
    """Yield what would change, by role, with what cannot be told."""
    pending = results.in_state(NodeState.PENDING)
    total = len(results.nodes)
    for role in _pending_roles(pending):
        yield Line(role, "bold")
        plans = {
            node.name: node.before.roles.get(role, RolePlan())
            for node in pending
            if node.before is not None and role in node.before.pending
        }
        said = {node: _planned_changes(role, plan) for node, plan in plans.items()}
        yield from _group_lines(said, total)
        if diffs:
            yield from _diff_lines(plans, total)
    yield from _failure_lines(results)
    yield from _reboot_lines(results, "reboot due once applied")
    yield Line(_counts(results), "bold")


def apply_lines(results: Results) -> Iterator[Line]:
    """Yield what became of the nodes."""
    changed = [node for node in results.nodes.values() if node.changes]
    total = len(results.nodes)
    roles = dict.fromkeys(role for node in changed for role in node.changes)
    for role in roles:
        yield Line(role, "bold")
        said = {
            node.name: change_lines(node.changes[role]) or ["changed"]
            for node in changed
            if role in node.changes
        }
        yield from _group_lines(said, total)
    yield from _failure_lines(results)
    if results.interrupted:
        done = [node.name for node in results.in_state(NodeState.CHANGED, NodeState.UNCHANGED)]
        yield Line("done", "green")
        yield Line(f"  {groups.label(done, total) if done else 'no node'}")
    half = {
        node.name: [f"ran {', '.join(node.roles)}"]
        for node in results.in_state(NodeState.INCOMPLETE)
    }
    yield from _section_lines(
        "half done; what runs on a node ends by itself", half, total, "yellow"
    )
    yield from _reboot_lines(results, "reboot due")
    yield Line(_counts(results), "bold")


def probe_lines(probed: Mapping[str, ProbeResult]) -> Iterator[Line]:
    """Yield which nodes Ansible must look at, and why."""
    said = {name: [one.why] for name, one in probed.items() if one.why}
    yield from _section_lines("not proven by the probe", said, len(probed), "yellow")


def _pending_roles(nodes: Iterable[NodeResult]) -> list[str]:
    """Return the pending roles in the order in which they run, which any survey knows."""
    surveys = [node.before for node in nodes if node.before is not None]
    pending = {role for survey in surveys for role in survey.pending}
    order = dict.fromkeys(role for survey in surveys for role in (*survey.roles, *survey.pending))
    return [role for role in order if role in pending]


def _planned_changes(role: str, plan: RolePlan) -> list[str]:
    if plan.waits:
        return [f"{role} after {plan.waits}"]
    return change_lines(plan.changes) or ["runs, with no setting to change"]


def _diff_lines(plans: Mapping[str, RolePlan], total: int) -> Iterator[Line]:
    """Yield the files' differences, those that several nodes share once."""
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
    failed = {
        node.name: [f"{node.failed}: {node.problem}"] for node in results.in_state(NodeState.FAILED)
    }
    yield from _section_lines("failed", failed, total, "red")
    missing = results.in_state(NodeState.NOT_STARTED)
    if missing:
        why = "" if results.interrupted or not failed else "; the run stopped after failures"
        yield Line(f"not begun{why}", "yellow")
        yield Line(f"  {groups.label([node.name for node in missing], total)}")
    lost = {node.name: [_why_unreachable(node)] for node in results.in_state(NodeState.UNREACHABLE)}
    yield from _section_lines("unreachable", lost, total, "red")


def _why_unreachable(node: NodeResult) -> str:
    """Return why a node could not be reached, and what may be half done on it."""
    return f"while {node.roles[-1]} ran: {node.problem}" if node.roles else node.problem


def _reboot_lines(results: Results, title: str) -> Iterator[Line]:
    due = {node.name: node.reboot for node in results.nodes.values() if node.reboot}
    yield from _section_lines(title, due, len(results.nodes), "yellow")


def _section_lines(
    title: str, said: Mapping[str, Iterable[str]], total: int, style: str
) -> Iterator[Line]:
    if said:
        yield Line(title, style)
        yield from _group_lines(said, total)


def _group_lines(said: Mapping[str, Iterable[str]], total: int) -> Iterator[Line]:
    for text, nodes in groups.group_by_text(said).items():
        yield Line(printable(f"  {groups.label(nodes, total)}: {text}"))


_WORDS = {
    NodeState.PENDING: "to change",
    NodeState.CHANGED: "changed",
    NodeState.UNCHANGED: "unchanged",
    NodeState.FAILED: "failed",
    NodeState.UNREACHABLE: "unreachable",
    NodeState.INCOMPLETE: "half done",
    NodeState.NOT_STARTED: "not begun",
}


def _counts(results: Results) -> str:
    numbers = {word: len(results.in_state(state)) for state, word in _WORDS.items()}
    probed = sum(1 for node in results.nodes.values() if node.probed)
    numbers[_WORDS[NodeState.UNCHANGED]] -= probed
    numbers = {f"{_WORDS[NodeState.UNCHANGED]} (probed)": probed, **numbers}
    counts = [f"{number} {word}" for word, number in numbers.items() if number]
    reboots = sum(1 for node in results.nodes.values() if node.reboot)
    if reboots:
        counts.append(f"{reboots} to reboot")
    total = len(results.nodes)
    return f"{total} node{'s' if total != 1 else ''}: {', '.join(counts)}"
