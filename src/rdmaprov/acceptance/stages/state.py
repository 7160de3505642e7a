"""Nodes whose settings were found wrong: their fabric is not measured yet."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from rdmaprov.finding.finding import Finding
from rdmaprov.runs.directory import RUNS


def findings(site: Path, nodes: Iterable[str], runs: Path = Path(RUNS)) -> list[Finding]:
    """Return the nodes that the last `rdmaprov validate` of the site found wrong.

    Args:
        site: the inventory directory.
        nodes: names of those that are to be accepted.
        runs: where runs are kept.

    """
    found = []
    for node in nodes:
        for path in sorted(runs.glob("*-validate*/results.json"), reverse=True):
            state = _state(path, site, node)
            if state == "failed":
                found.append(wrong_state(node, f"its settings failed in {path.parent.name}"))
            if state:
                break
    return found


def wrong_state(node: str, why: str) -> Finding:
    """Return the finding that a node is not measured because its state is wrong."""
    remedy = "State first: run rdmaprov apply and rdmaprov validate, or pass --ignore-validate"
    return Finding("state.wrong", f"not measured: {why}", remedy, node, proven=False)


def _state(path: Path, site: Path, node: str) -> str:
    """Return a node's state in a run's results, empty if they say nothing of it."""
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
        same = Path(results["site"]).resolve() == site.resolve()
        return str(results["nodes"].get(node, {}).get("state", "")) if same else ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ""  # an interrupted run, or one of another version
