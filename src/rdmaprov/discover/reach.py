"""Run the collector on nodes, with Ansible's connection settings."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rdmaprov.apply.events import clean_reason
from rdmaprov.boundary import OddAnswer
from rdmaprov.discover.facts import parse_facts
from rdmaprov.probe.reasons import sudo_reason
from rdmaprov.probe.script import node_script
from rdmaprov.problem import printable
from rdmaprov.runner import run_ansible

COLLECTOR = Path(__file__).with_name("collector.py")
_PYTHON = '{{ ansible_python_interpreter | default("python3") }}'
# It takes a second; a node that does not end would hold up all others.
_LIMIT_S = "{{ rdmaprov_task_limit_s | default(120) }}"
_MOST_REASON = 500  # characters
_EVENTS = {"runner_on_failed", "runner_on_unreachable"}


@dataclass(frozen=True)
class NodeFacts:
    """The facts of each node that was read, and why each other node was not."""

    facts: dict[str, dict[str, Any]]
    failures: dict[str, str]


def read_nodes(
    site: Path,
    nodes: Iterable[str],
    passwords: Sequence[str] = (),
    hear: Callable[[str, bool], None] = lambda _output, _bad: None,
) -> NodeFacts:
    """Run the collector on the nodes of a site; return the facts of each.

    Args:
        site: the inventory directory.
        nodes: their names; the site may have hosts that are no nodes.
        passwords: Ansible's arguments that name files with passwords.
        hear: called per node with Ansible's output, and whether reading the node failed.

    """
    answers = NodeFacts({}, {})

    def handle(event: dict[str, Any]) -> None:
        _record_event(event, answers)
        kind = event.get("event")
        if kind in {"runner_on_ok", *_EVENTS}:
            hear(str(event.get("stdout") or ""), kind != "runner_on_ok")

    with tempfile.TemporaryDirectory(prefix="rdmaprov-") as directory:
        script = Path(directory, COLLECTOR.name)
        script.write_bytes(node_script(COLLECTOR))
        names = Path(directory, "nodes")
        names.write_text("".join(f"{name}\n" for name in nodes))
        run_ansible(
            inventory=str(site.resolve()),
            limit=f"@{names}",
            playbook=[{"hosts": "all", "gather_facts": False, "tasks": [_task(script)]}],
            cmdline=shlex.join(passwords) or None,
            event_handler=handle,
        )
    return answers


def _task(script: Path) -> dict[str, Any]:
    return {
        "name": "Read the hardware of the node",
        "rdmaprov.node.collect": {"program": str(script), "python": _PYTHON},
        "timeout": _LIMIT_S,
    }


def _record_event(event: dict[str, Any], answers: NodeFacts) -> None:
    data = event.get("event_data", {})
    host, result = str(data.get("host", "")), data.get("res", {})
    if event.get("event") == "runner_on_ok" and host:
        try:
            answers.facts[host] = parse_facts(str(result.get("stdout", "")))
        except OddAnswer as error:
            answers.failures[host] = str(error)
    elif event.get("event") in _EVENTS and host:
        said = str(result.get("stderr") or result.get("msg") or "no reason given")
        without = sudo_reason(said)
        reason = without.text if without else clean_reason(said)
        answers.failures[host] = printable(reason)[:_MOST_REASON]
