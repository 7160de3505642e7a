"""Which nodes may be out of service together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rdmaprov.inventory import Node

# What nodes have in common that fails as a whole, where the site says it.
_DOMAINS = ("fabric_leaf", "fabric_rack")


def batches(nodes: Sequence[Node], size: int) -> Iterator[list[str]]:
    """Yield the names of nodes that go together: first one alone, then up to `size` at a time.

    No batch has two nodes of one leaf or of one rack, as a leaf or rack that then fails would be
    two losses at once.
    """
    left = list(nodes)
    if left:
        yield [left.pop(0).name]
    while left:
        batch: list[Node] = []
        for node in left:
            if len(batch) < size and not any(_share(node, other) for other in batch):
                batch.append(node)
        left = [node for node in left if node not in batch]
        yield [node.name for node in batch]


def _share(one: Node, other: Node) -> bool:
    return any(one.get(name) and one.get(name) == other.get(name) for name in _DOMAINS)
