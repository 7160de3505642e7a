"""The same thing on many nodes, said once: changes merged, nodes grouped, names folded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from rdmaprov.apply.events import Change

# What a configuration says when it has no value of its own to compare.
_NO_VALUE = frozenset({"", "none", "another", "absent", "different", "unset"})
_MOST_PARTS = 6
# In another name NodeSet would find an operator, a wildcard or a digit that is not ASCII.
_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,255}")


def texts(changes: Sequence[Change]) -> list[str]:
    """Return changes as lines, the layers of one setting merged where they agree.

    >>> texts([Change("running", "ens1", "MTU", "1500", "9000"),
    ...        Change("configured", "ens1", "MTU", "none", "9000")])
    ['ens1 MTU 1500 → 9000 (running, configured)']
    """
    settings: dict[tuple[str, str, str], list[Change]] = {}
    for change in changes:
        settings.setdefault((change.device, change.setting, change.wanted), []).append(change)
    return [line for alike in settings.values() for line in _merged(alike)]


def _merged(alike: list[Change]) -> list[str]:
    """Return one line for changes of one setting to one value, or one for each if they differ."""
    seen = {change.seen for change in alike}
    if len(seen) > 1:
        seen -= _NO_VALUE
    if len(seen) != 1:
        return [_text(change, change.seen, [change.layer]) for change in alike]
    layers = list(dict.fromkeys(change.layer for change in alike))
    return [_text(alike[0], seen.pop(), layers)]


def _text(change: Change, seen: str, layers: list[str]) -> str:
    what = f"{change.device} {change.setting}".strip()
    return f"{what} {seen or '(empty)'} → {change.wanted or '(empty)'} ({', '.join(layers)})"


def by_text(said: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
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
    return f"{len(nodes)} nodes ({folded(nodes)})"


def folded(nodes: Iterable[str]) -> str:
    """Return names on one short line, as ClusterShell and Slurm write and read them.

    >>> folded(["gpu01", "gpu02", "gpu03", "login"])
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
