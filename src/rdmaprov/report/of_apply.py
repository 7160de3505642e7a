"""What the page of `plan` and `apply` shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rdmaprov.apply.changes import change_lines
from rdmaprov.apply.events import Change
from rdmaprov.report.grid import grid
from rdmaprov.report.issues import Message, Scope, group_messages
from rdmaprov.report.model import Cell, Changes, Grid, Tone, View
from rdmaprov.report.words import nodes_by_state, quantity
from rdmaprov.runs import groups

_HEADLINES = {
    ("plan", "ok"): "Nothing to change",
    ("plan", "pending"): "Changes are due",
    ("apply", "ok"): "All nodes are as the site says",
    ("apply", "pending"): "A reboot is due",
}
_OTHERWISE = {"failed": "Failed", "unknown": "Could not tell", "interrupted": "Interrupted"}
_STATES = {
    "failed": "failed",
    "unreachable": "unreachable",
    "half_done": "half done",
    "not_begun": "not begun",
    "pending": "to change",
    "changed": "changed",
    "unchanged": "unchanged",
}
_TONES = {
    "failed": Tone.BAD,
    "half_done": Tone.UNKNOWN,
    "pending": Tone.DUE,
    "waiting": Tone.DUE,
    "changed": Tone.GOOD,
    "unchanged": Tone.GOOD,
}
_SIGNS = (
    (Tone.BAD, "failed"),
    (Tone.UNKNOWN, "half done, or not known"),
    (Tone.DUE, "to change"),
    (Tone.GOOD, "as the site says; with a number: so many settings changed"),
)
_NOT_READ = Cell(Tone.UNKNOWN, "", "not known: the node was not read")


def view(data: Mapping[str, Any]) -> View:
    """Return what results.json of plan or apply says."""
    verdict = data["verdict"]
    # `apply --ask` that was answered with no has planned, and no more.
    planned = any(node["state"] == "pending" for node in data["nodes"].values())
    verb = "plan" if planned else data["verb"]
    headline = _HEADLINES.get((verb, verdict)) or _OTHERWISE[verdict]
    site = Scope(data["site"], data["limit"], data["nodes"])
    return View(
        headline=headline,
        summary=nodes_by_state(data["nodes"], _STATES),
        grid=_grid(data["nodes"]),
        issues=group_messages(_messages(data, site), site),
        changes=tuple(_changes(data["nodes"])),
        changes_title="What is to change" if planned else "What was changed",
        facts=tuple(_facts(data)),
        files=("results.json", "logs/ansible.log"),
    )


def _facts(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "roles", ", ".join(data["roles"]) or "all"
    if proven := sum(node["probed"] for node in data["nodes"].values()):
        yield "proven by a probe, without Ansible", quantity(proven, "node")


def _messages(data: Mapping[str, Any], site: Scope) -> Iterator[Message]:
    for name, node in data["nodes"].items():
        again = site.command(data["verb"], [name])
        yield from _state_messages(name, node, again, site)
        if node["reboot"] and node["state"] != "pending":
            reboot = site.command("apply", [name], "--reboot", "if-needed")
            why = f"a reboot is due: {'; '.join(node['reboot'])}"
            yield Message(Tone.DUE, "reboot", name, why, f"Run: {reboot}")


def _state_messages(
    name: str, node: Mapping[str, Any], again: str, site: Scope
) -> Iterator[Message]:
    state, why = node["state"], "; ".join(node["problems"]) or "no reason given"
    if state == "failed":
        remedy = f"Repair what it names, then run: {again}"
        yield Message(Tone.BAD, node["failed_task"], name, why, remedy)
    elif state == "unreachable":
        during = f"while {node['roles_run'][-1]} ran: " if node["roles_run"] else ""
        remedy = f"Have ssh reach it as Ansible does, then run: {again}"
        yield Message(Tone.UNKNOWN, "unreachable", name, during + why, remedy)
    elif state == "half_done":
        ran = f"the run ended at {node['roles_run'][-1]}, and the node was not read again"
        yield Message(Tone.UNKNOWN, "half done", name, ran, f"Run: {again}")
    elif state == "not_begun":
        what = "the run ended before it came to this node"
        yield Message(Tone.UNKNOWN, "not begun", name, what, f"Run: {again}")
    elif state == "pending":
        what = "it is not yet as the site says; see what is to change"
        yield Message(Tone.DUE, "to change", name, what, f"Run: {site.command('apply', [name])}")


def _grid(nodes: Mapping[str, Any]) -> Grid:
    columns = list(dict.fromkeys(role for node in nodes.values() for role in node["roles"]))
    cells = {
        name: tuple(_cell(node, role) for role in columns) or (_NOT_READ,)
        for name, node in nodes.items()
    }
    return grid("role", columns or ["all roles"], cells, _SIGNS)


def _cell(node: Mapping[str, Any], role: str) -> Cell:
    state = node["roles"].get(role)
    if state is None:
        return _NOT_READ
    number = len(node["changes"].get(role, ()))
    words = state.replace("_", " ")
    if state == "waiting":
        words = f"waits: {node['waits'].get(role, '')}"
    elif number:
        words += f": {number} setting{'s' if number != 1 else ''}"
    text = str(number) if number else "+" if state == "changed" else ""
    return Cell(_TONES[state], text, words)


def _changes(nodes: Mapping[str, Any]) -> Iterator[Changes]:
    """Yield what each role changed or is to change, nodes with the same settings together."""
    roles = dict.fromkeys(role for node in nodes.values() for role in node["changes"])
    for role in roles:
        said = {
            name: change_lines([Change(**each) for each in node["changes"][role]])
            or [
                f"after {node['waits'][role]}"
                if role in node["waits"]
                else "runs, with no setting to name"
            ]
            for name, node in nodes.items()
            if role in node["changes"]
        }
        lines = groups.group_by_text(said).items()
        yield Changes(role, tuple((groups.label(own, len(nodes)), text) for text, own in lines))
