"""What is known of the nodes that take part in an acceptance."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from rdmaprov.acceptance.preflight import needs as preflight
from rdmaprov.acceptance.preflight.reach import Rendezvous
from rdmaprov.boundary import Document
from rdmaprov.errors import UsageError
from rdmaprov.inventory import Node


@dataclass(frozen=True)
class GateSite:
    """What is known of the nodes when a job is made.

    Args:
        nodes: in the site's order.
        facts: the preflight, by node.
        backend: `nccl` or `gloo`.
        rendezvous: where ranks join.
        mnnvl: whether NVLink between nodes may be used.
        collnet: whether the switches may reduce.
        is_joined: whether kept runs prove what is under each leaf; what is between them is left.
    """

    nodes: tuple[Node, ...]
    facts: Mapping[str, Document]
    backend: str
    rendezvous: Rendezvous
    mnnvl: bool = True
    collnet: bool = True
    is_joined: bool = False

    def without(self, names: Collection[str]) -> GateSite:
        """Return the site without some nodes."""
        left = tuple(node for node in self.nodes if node.name not in names)
        facts = {node.name: self.facts[node.name] for node in left}
        return replace(self, nodes=left, facts=facts)

    @cached_property
    def per_node(self) -> int:
        """Return the ranks of a node: one for each GPU, one without.

        Raises:
            UsageError: nodes have different numbers of GPUs, or none.
        """
        if self.backend != "nccl":
            return 1
        found = preflight.gpus_per_node(self.facts)
        if not found:
            what = "nccl needs the same number of GPUs on each node, at least 1"
            raise UsageError(what, "See which nodes have how many: nvidia-smi -L; use --limit")
        return found
