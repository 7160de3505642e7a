"""Which nodes a replaced one is measured with: known good, idle, one for each leaf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import Node
from rdmaprov.runs.directory import RUNS
from rdmaprov.runs.last_word import PASSED, last_words
from rdmaprov.runs.results import results_of
from rdmaprov.scheduler.model import NodeStatus

# The gate names a node that failed with two witnesses which passed elsewhere [docs/acceptance.md].
LEAST = 2


def known_good(site: Path, nodes: Sequence[str], runs: Path = Path(RUNS)) -> set[str]:
    """Return the nodes whose last word is a pass and that the last `accept` has nothing against."""
    good: set[str] = set()
    left = set(nodes)
    for path in sorted(runs.glob("*-accept*/results.json"), reverse=True):
        if not left:
            break
        results = _accepted(path, site)
        for node in left & results.keys():
            left.discard(node)
            if results[node]:
                good.add(node)
    words = last_words(site, good, runs)
    return {name for name in good if name in words and words[name].state == PASSED}


def _accepted(path: Path, site: Path) -> dict[str, bool]:
    """Return by node whether a run's results have nothing against it; empty if they say nothing."""
    results = results_of(path, site)
    if results is None:
        return {}
    try:
        # Of an unknown verdict nobody knows what it lacked.
        told = results["exit_code"] in (ExitCode.OK, ExitCode.FAILED)
        return {node: told and own["findings"] == 0 for node, own in results["nodes"].items()}
    except (KeyError, TypeError, AttributeError):
        return {}


def choose_witnesses(
    candidates: Sequence[Node], status: Mapping[str, NodeStatus], count: int | None
) -> list[str]:
    """Return the names of idle nodes, spread over the leaves.

    Args:
        candidates: nodes that are known good, in the site's order.
        count: how many; None for one of each leaf, and LEAST at least.
    """
    leaves: dict[str, list[str]] = {}
    for node in candidates:
        if status[node.name].idle:
            leaves.setdefault(str(node.get("fabric_leaf") or ""), []).append(node.name)
    wanted = max(LEAST, len(leaves)) if count is None else count
    rounds = max(map(len, leaves.values()), default=0)
    ordered = [own[at] for at in range(rounds) for own in leaves.values() if at < len(own)]
    return ordered[:wanted]
