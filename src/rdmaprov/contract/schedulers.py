"""How the site's scheduler is reached: settings that belong together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rdmaprov.contract.rule import FleetRule, Rule, Violation
from rdmaprov.inventory.model import Node

_DOCS = "docs/variables.md, scheduler"
_KIND = "scheduler_kind"
# Program → the places that its words must have.
_PLACES = {
    "scheduler_state_command": ("{node}",),
    "scheduler_drain_command": ("{node}", "{reason}"),
    "scheduler_resume_command": ("{node}",),
}


def _programs(node: Node) -> Iterator[Violation]:
    for name, places in _PLACES.items():
        words = [str(word) for word in node.get(name) or ()]
        if node.get(_KIND) != "command":
            if words:
                message = f"it has no effect with {_KIND}: {node.get(_KIND)}"
                remedy = f"write {_KIND}: command, or remove the line"
                yield Violation(name, message, remedy, (), (_KIND,))
        elif not words:
            yield Violation(_KIND, f"the kind command needs {name}", f"set {name}")
        else:
            for place in places:
                if not any(place in word for word in words):
                    message = f"no word has {place}"
                    yield Violation(name, message, f"write {place} where that goes")


def _one(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    for name in (_KIND, *_PLACES):
        for node in nodes:
            if node.get(name) != nodes[0].get(name):
                message = f"it differs from that of {nodes[0].name}: a site has one scheduler"
                yield node, Violation(name, message, "write it once, in group_vars/all.yml")


RULES = (
    Rule(
        "scheduler.programs",
        "The site's own programs belong to scheduler_kind: command.",
        _DOCS,
        _programs,
    ),
    FleetRule("scheduler.one", "All nodes have one scheduler.", _DOCS, _one),
)
