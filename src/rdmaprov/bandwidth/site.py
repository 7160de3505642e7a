"""The fabric of a site: what limits an all-reduce, from the inventory."""

from collections import Counter
from collections.abc import Sequence

from rdmaprov.bandwidth.fabric import Fabric, FabricError
from rdmaprov.inventory import Node


def site_fabric(nodes: Sequence[Node], gpus_per_node: int = 0, mnnvl: bool = True) -> Fabric:
    """Return the fabric of some nodes; the weakest of them counts.

    Args:
        nodes: one or more; of one, no rail is used.
        gpus_per_node: as counted on the nodes; 0: as the site says, or one for each rail.
        mnnvl: whether nodes of one NVLink domain use it; False with NCCL_MNNVL_ENABLE=0.

    Raises:
        FabricError: the site does not say enough.
    """
    links = [float(node.link_gbps(rail)) for node in nodes for rail in node.compute_rails]
    over = [float(node.get("fabric_oversubscription") or 1.0) for node in nodes]
    rails = min((len(node.compute_rails) for node in nodes), default=0)
    if not rails or min(links) <= 0 or min(over) < 1:
        raise FabricError(
            "the site does not state its fabric", "Write fabric_rails and fabric_link_gbps."
        )
    gpus = gpus_per_node or min(_gpus(node) for node in nodes)
    domain = nvlink_nodes(nodes) if mnnvl else 1
    return Fabric(len(nodes), gpus, rails, min(links), max(over), None, domain)


def nvlink_nodes(nodes: Sequence[Node]) -> int:
    """Return how many nodes the largest NVLink domain has; 1 if NVLink ends at the node."""
    domains = Counter(domain for node in nodes if (domain := node.get("fabric_nvlink_domain")))
    return max(domains.values(), default=1)


def _gpus(node: Node) -> int:
    mapped = {gpu for rail in node.rails for gpu in rail.gpus}
    # A site that says nothing of GPUs has enough of them to fill the rails.
    return node.get("fabric_gpu_count") or len(mapped) or len(node.compute_rails)
