"""xdist: all items of a node go to one worker."""

from xdist.scheduler import LoadScopeScheduling

from rdmaprov.validate.items import node_in


class ByNode(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types for it
    """Distributes items by the node in their names; those about the fleet go together."""

    def _split_scope(self, nodeid: str) -> str:
        return node_in(nodeid)
