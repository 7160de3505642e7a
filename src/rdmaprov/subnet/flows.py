"""The flows of collective operations: who sends to whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from rdmaprov.subnet.fabric import Hca, SubnetGraph
from rdmaprov.subnet.names import natural

Flow = tuple[Hca, Hca]


def rails(fabric: SubnetGraph) -> list[list[Hca]]:
    """Return the HCAs of each rail, in the order of their hosts' names.

    A rail is a device name. HCAs whose description has none are one rail.
    """
    found: dict[tuple[str, int], list[Hca]] = defaultdict(list)
    for hca in fabric.hcas:
        if hca.end.lid:
            found[hca.at.device, hca.end.port].append(hca)
    return [
        sorted(found[key], key=lambda hca: (natural(hca.at.host), hca.end.guid))
        for key in sorted(found, key=lambda key: (natural(key[0]), key[1]))
    ]


def ring(rail: list[Hca]) -> Iterator[Flow]:
    """Yield a ring in the order of the names, as a scheduler that knows the fabric orders nodes."""
    if len(rail) > 1:
        yield from zip(rail, [*rail[1:], rail[0]], strict=True)


def ringx(rail: list[Hca]) -> Iterator[Flow]:
    """Yield a ring with the nodes dealt over the leaves, so that each hop crosses a spine."""
    leaves: dict[int, list[Hca]] = defaultdict(list)
    for hca in rail:
        leaves[hca.switch].append(hca)
    most = max(map(len, leaves.values()), default=0)
    yield from ring([own[i] for i in range(most) for own in leaves.values() if i < len(own)])


def tree(rail: list[Hca]) -> Iterator[Flow]:
    """Yield both directions of NCCL's two binary trees over the nodes in the order of their names.

    The second tree is the first, shifted by one node or mirrored, so that a leaf of one is an
    inner node of the other (NCCL, src/graph/trees.cc).
    """
    count = len(rail)
    for child, parent in _binary_tree(count):
        for own, above in ((child, parent), _second(child, parent, count)):
            yield rail[own], rail[above]
            yield rail[above], rail[own]


def _binary_tree(count: int) -> Iterator[tuple[int, int]]:
    """Yield child and parent: a node's lowest set bit is its level, 0 is the root."""
    for rank in range(1, count):
        bit = rank & -rank
        parent = (rank ^ bit) | (bit << 1)
        yield rank, parent if parent < count else rank ^ bit


def _second(child: int, parent: int, count: int) -> tuple[int, int]:
    if count % 2:
        return (child + 1) % count, (parent + 1) % count
    return count - 1 - child, count - 1 - parent


PATTERNS = {"ring": ring, "ringx": ringx, "tree": tree}
