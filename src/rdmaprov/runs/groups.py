"""Many nodes in few words: grouped by text, counted by state, names folded."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice

from rdmaprov.words import quantity

_MOST_PARTS = 6
# In another name NodeSet would find an operator, a wildcard or a digit that is not ASCII.
_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,255}")


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
    """Return names on one short line, as ClusterShell and Slurm write and read them.

    >>> fold_names(["gpu01", "gpu02", "gpu03", "login"])
    'gpu[01-03],login'
    """
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    names = set(nodes)
    plain = {name for name in names if _PLAIN.fullmatch(name)}
    ranges = NodeSet.fromlist(plain, resolver=RESOLVER_NOGROUP).contiguous()
    parts = list(islice(ranges, _MOST_PARTS))
    odd = sorted(names - plain)[: _MOST_PARTS - len(parts)]
    shown = NodeSet(resolver=RESOLVER_NOGROUP)
    for part in parts:
        shown.update(part)
    rest = len(names) - len(shown) - len(odd)
    return ",".join(filter(None, [str(shown), *odd])) + (f" and {rest} more" if rest else "")


def subject(test: str) -> str:
    """Return what a test is about: its file's name without what all of them have.

    >>> subject("test_mtu.py::test_mtu_running[gpu07-rail3]")
    'mtu'
    """
    file = test.partition("::")[0].rpartition("/")[2]
    return file.removesuffix(".py").removeprefix("test_")
