"""Events of real runs of Ansible, and the results that they make."""

from __future__ import annotations

import json
from pathlib import Path

from rdmaprov.apply.events import parse_event
from rdmaprov.apply.results import Results

EVENTS = Path(__file__).parents[2] / "fixtures" / "ansible_events"


def events(name):
    return [json.loads(line) for line in (EVENTS / f"{name}.jsonl").read_text().splitlines()]


def run(name, *, applies=True, until=None):
    results = Results(("node1", "node2", "node3"), applies=applies)
    for raw in events(name)[:until]:
        event = parse_event(raw)
        if event is not None:
            results.record(event)
    return results


def shown(lines):
    return "\n".join(line.text for line in lines)


def results_of(*nodes, interrupted=False):
    results = Results((), applies=True)
    results.nodes = {node.name: node for node in nodes}
    results.interrupted = interrupted
    return results
