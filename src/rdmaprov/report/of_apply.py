"""The page of `plan`, `apply` and `revert`."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from rdmaprov.apply.changes import change_lines
from rdmaprov.apply.events import Change
from rdmaprov.report.issues import Message, Scope, grid, group_messages
from rdmaprov.report.model import Cell, Changes, Grid, Tone, View
from rdmaprov.runs import groups
from rdmaprov.words import quantity

_HEADLINES = {
    ("plan", "ok"): "Nothing to change",
    ("plan", "pending"): "Changes pending",
    ("apply", "ok"): "All nodes match the site",
    ("apply", "pending"): "Reboot required",
    ("revert", "ok"): "Taken back",
    ("revert", "pending"): "Taken back, reboot required",
}
_OTHERWISE = {"failed": "Failed", "unknown": "Unknown", "interrupted": "Interrupted"}
_STATES = {
    "failed": "failed",
    "unknown": "unknown",
    "unreachable": "unreachable",
    "half_done": "incomplete",
    "not_begun": "not started",
    "pending": "pending",
    "changed": "changed",
    "unchanged": "unchanged",
}
_NAMED = ("failed", "unknown", "unreachable", "half_done", "not_begun")
_TONES = {
    "failed": Tone.BAD,
    "unknown": Tone.UNKNOWN,
    "half_done": Tone.UNKNOWN,
    "pending": Tone.DUE,
    "waiting": Tone.DUE,
    "changed": Tone.GOOD,
    "unchanged": Tone.GOOD,
}
_SIGNS = (
    (Tone.BAD, "failed"),
    (Tone.UNKNOWN, "incomplete or unknown"),
    (Tone.DUE, "pending"),
    (Tone.GOOD, "matches the site (number: changed settings; +: another change)"),
)
_NOT_READ = Cell(Tone.UNKNOWN, "", "unknown: the node was not surveyed")


def view(data: Mapping[str, Any]) -> View:
    """Return the content of the page."""
    verdict = data["verdict"]
    # `apply` only planned if the answer was no.
    planned = any(node["state"] == "pending" for node in data["nodes"].values())
    verb = "plan" if planned else data["verb"]
    headline = _HEADLINES.get((verb, verdict)) or _OTHERWISE[verdict]
    site = Scope(data["site"], data["limit"], data["nodes"])
    return View(
        headline=headline,
        summary=groups.count_states(
            {name: node["state"] for name, node in data["nodes"].items()}, _STATES, _NAMED
        ),
        grid=_grid(data["nodes"]),
        issues=group_messages(_messages(data, site), site),
        changes=tuple(_changes(data["nodes"])),
        changes_title="Pending changes" if planned else "Changes made",
        facts=tuple(_facts(data)),
        files=("results.json", "logs/ansible.log"),
    )


def _facts(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "roles", ", ".join(data["roles"]) or "all"
    if "reverts" in data:
        yield "takes back", data["reverts"]
    if proven := sum(node["probed"] for node in data["nodes"].values()):
        yield "verified by the probe, without Ansible", quantity(proven, "node")


def _messages(data: Mapping[str, Any], site: Scope) -> Iterator[Message]:
    for name, node in data["nodes"].items():
        again = site.command(data["verb"], [name], *filter(None, [data.get("reverts")]))
        yield from _state_messages(name, node, again, site)
        if node["reboot"] and node["state"] != "pending":
            reboot = site.command("apply", [name], "--reboot", "if-needed")
            why = f"reboot required: {'; '.join(node['reboot'])}"
            remedy = "Reboot the node" if "reverts" in data else f"Run: {reboot}"
            yield Message(Tone.DUE, "reboot", name, why, remedy)
        for text in node.get("stays", ()):
            yield Message(Tone.DUE, "not taken back", name, text, "Set it by hand")


def _state_messages(
    name: str, node: Mapping[str, Any], again: str, site: Scope
) -> Iterator[Message]:
    role = node["roles_run"][-1] if node["roles_run"] else ""
    state, why = node["state"], "; ".join(node["problems"]) or "no reason given"
    if state == "failed":
        remedy = f"Fix the cause, then run: {again}"
        yield Message(Tone.BAD, node["failed_task"], name, why, remedy)
    elif state == "unknown":
        yield Message(
            Tone.UNKNOWN, "unknown", name, why, f"Correct fabric_rails, then run: {again}"
        )
    elif state == "unreachable":
        during = f"connection lost during role {role}: " if role else ""
        ping = shlex.join(["ansible", "-i", site.path, name, "-m", "ping"])
        remedy = f"Restore ssh from the controller (check: {ping}), then run: {again}"
        yield Message(Tone.UNKNOWN, "unreachable", name, during + why, remedy)
    elif state == "half_done":
        what = f"the run ended at role {role}; no survey confirmed the result"
        yield Message(Tone.UNKNOWN, "incomplete", name, what, f"Run: {again}")
    elif state == "not_begun":
        what = "the run ended before it changed this node"
        yield Message(Tone.UNKNOWN, "not started", name, what, f"Run: {again}")
    elif state == "pending":
        what = "there is something to do; see Pending changes"
        do = again.replace("rdmaprov plan ", "rdmaprov apply ", 1)
        yield Message(Tone.DUE, "pending", name, what, f"Run: {do}")
    if node.get("busy"):
        remedy = "Drain the node; or pass --force-busy to apply"
        yield Message(Tone.BAD, "busy", name, "; ".join(node["busy"]), remedy)
    if node.get("interrupts"):
        what = "; ".join(node["interrupts"])
        yield Message(Tone.DUE, "interrupts traffic", name, what, "Apply while no job runs")


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
    words = _STATES.get(state, state)
    if state == "waiting":
        words = _waits(node, role)
    elif number:
        words += f": {quantity(number, 'setting')}"
    text = str(number) if number else "+" if state == "changed" else ""
    return Cell(_TONES[state], text, words)


def _waits(node: Mapping[str, Any], role: str) -> str:
    """Return what a role waits for; a run that ended early may not know it."""
    return ": ".join(filter(None, ["waits for an earlier role", node["waits"].get(role)]))


def _changes(nodes: Mapping[str, Any]) -> Iterator[Changes]:
    """Yield the changes of each role, made or pending; nodes with equal changes together."""
    roles = dict.fromkeys(role for node in nodes.values() for role in node["changes"])
    for role in roles:
        texts = {
            name: change_lines([Change(**each) for each in node["changes"][role]])
            or [_waits(node, role) if role in node["waits"] else "runs; changes no setting"]
            for name, node in nodes.items()
            if role in node["changes"]
        }
        lines = groups.group_by_text(texts).items()
        yield Changes(role, tuple((groups.label(own, len(nodes)), text) for text, own in lines))
