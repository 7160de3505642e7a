"""Many nodes in few words: grouped by text, counted by state, names folded."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from rdmaprov.words import quantity

_MOST_PARTS = 6


def group_by_text(texts: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return each text with the nodes that have it, from the texts of each node."""
    nodes: dict[str, list[str]] = {}
    for node, lines in texts.items():
        for line in dict.fromkeys(lines):
            nodes.setdefault(line, []).append(node)
    return nodes


def label(nodes: Sequence[str], total: int) -> str:
    """Return some nodes of a run by name, or all of them by their number."""
    if len(nodes) == 1:
        return nodes[0]
    if len(nodes) == total:
        return quantity(total, "node")
    return f"{quantity(len(nodes), 'node')} ({fold_names(nodes)})"


def count_states(
    states: Mapping[str, str], words: Mapping[str, str], named: Collection[str] = ()
) -> str:
    """Return how many nodes are in which state.

    >>> count_states({"n1": "ok", "n2": "bad"}, {"ok": "passed", "bad": "failed"}, ["bad"])
    '2 nodes: 1 passed, 1 failed (n2)'

    Args:
        states: by node.
        words: how to call each state, in the order of the text.
        named: the states whose nodes are named, unless all nodes are in one of them.

    """
    parts = []
    for state, word in words.items():
        nodes = [node for node, own in states.items() if own == state]
        names = f" ({fold_names(nodes)})" if state in named and len(nodes) < len(states) else ""
        parts += [f"{len(nodes):,} {word}{names}"] if nodes else []
    return f"{quantity(len(states), 'node')}: {', '.join(parts)}"


def fold_names(nodes: Iterable[str]) -> str:
    """Return names on one short line, those with consecutive numbers as first-last.

    >>> fold_names(["gpu01", "gpu02", "gpu03", "login"])
    'gpu01-gpu03, login'
    """
    runs: list[list[str]] = []
    for name in sorted(nodes, key=_split):
        if runs and name == _next(runs[-1][-1]):
            runs[-1].append(name)
        else:
            runs.append([name])
    parts = []
    for run in runs:
        parts += run if len(run) < 3 else [f"{run[0]}-{run[-1]}"]
    rest = len(parts) - _MOST_PARTS
    return ", ".join(parts[:_MOST_PARTS]) + (f" and {rest} more" if rest > 0 else "")


def _split(name: str) -> tuple[str, int, str, str]:
    """Return a name's text before its last number, the number, the text after it, its digits."""
    found = re.match(r"(.*?)([0-9]+)([^0-9]*)\Z", name, re.DOTALL)
    if found is None:
        return name, -1, "", ""
    return found[1], int(found[2]), found[3], found[2]


def _next(name: str) -> str:
    """Return the name with the number that follows; empty if it has no number."""
    before, number, after, digits = _split(name)
    return f"{before}{str(number + 1).zfill(len(digits))}{after}" if digits else ""


def subject(test: str) -> str:
    """Return what a test is about: its file's name without what all of them have.

    >>> subject("test_mtu.py::test_mtu_running[gpu07-rail3]")
    'mtu'
    """
    file = test.partition("::")[0].rpartition("/")[2]
    return file.removesuffix(".py").removeprefix("test_")
