"""The same thing on many nodes, said once: nodes grouped, names folded, tests by subject."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

_MOST_PARTS = 6


def group_by_text(said: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return what nodes say, turned around: each text with the nodes that say it."""
    nodes: dict[str, list[str]] = {}
    for node, lines in said.items():
        for line in dict.fromkeys(lines):
            nodes.setdefault(line, []).append(node)
    return nodes


def label(nodes: Sequence[str], total: int) -> str:
    """Return how to call some of a run's nodes: by name, or by number if they are all of many."""
    if len(nodes) == 1:
        return nodes[0]
    if len(nodes) == total:
        return f"{total} nodes"
    return f"{len(nodes)} nodes ({fold_names(nodes)})"


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
