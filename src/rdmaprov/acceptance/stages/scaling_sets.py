"""Which nodes measure together in the stage `scaling`, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest

from rdmaprov.acceptance.live.ranks import Group
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks.jobs import node_counts
from rdmaprov.inventory import Node


def counts(nodes: int) -> tuple[int, ...]:
    """Return how many nodes a set has, ascending: powers of two, and all.

    >>> counts(16), counts(12)
    ((2, 4, 8, 16), (2, 4, 8, 12))
    """
    return node_counts(nodes)[1:]


def leaf_of(site: GateSite) -> dict[str, str]:
    """Return the leaf of each node, empty where the site does not say."""
    return {node.name: str(node.get("fabric_leaf") or "") for node in site.nodes}


def by_leaf(site: GateSite) -> GateSite:
    """Return the site with leaf after leaf; its first node stays the first."""
    return replace(site, nodes=tuple(chain.from_iterable(_leaves(site))))


def alternating(site: GateSite) -> GateSite:
    """Return the site with one node of each leaf after the other; its first node stays the first.

    torch sorts the ranks of a group (torch.distributed.new_group), so the order of a session is
    that of each ring in it. Here, as many neighbours as possible are under different leaves.
    """
    turns = chain.from_iterable(zip_longest(*_leaves(site)))
    return replace(site, nodes=tuple(node for node in turns if node is not None))


def _leaves(site: GateSite) -> list[list[Node]]:
    """Return the nodes of each leaf, of those without one two halves, as neighbours are likely."""
    found: dict[str, list[Node]] = {}
    for node in site.nodes:
        found.setdefault(str(node.get("fabric_leaf") or ""), []).append(node)
    if len(found) > 1:
        return list(found.values())
    middle = (len(site.nodes) + 1) // 2
    return [list(site.nodes[:middle]), list(site.nodes[middle:])]


def sets_of(site: GateSite, count: int) -> list[list[Group]]:
    """Return sets of nodes in rounds; those of a round are disjoint. Each node is in one at least.

    A set is under one leaf where all leaves have as many nodes; else it fills leaf after leaf.
    """
    leaves = [[node.name for node in own] for own in _leaves(site)]
    if count > min(map(len, leaves)):
        leaves = [list(chain.from_iterable(leaves))]
    whole = [part for own in leaves for part in _chunks(own, count)]
    rest = [tuple(own[-count:]) for own in leaves if len(own) % count]
    return [each for each in (whole, rest) if each]


def _chunks(names: Sequence[str], count: int) -> Iterator[Group]:
    for start in range(0, len(names) - count + 1, count):
        yield tuple(names[start : start + count])


def spanned(nodes: Group, leaves: Mapping[str, str]) -> int:
    """Return how many leaves some nodes are under; 0 if the site does not say."""
    own = {leaves[name] for name in nodes}
    return 0 if "" in own else len(own)
