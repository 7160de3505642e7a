"""xdist: all items of a node go to one worker."""

from __future__ import annotations

import re

from xdist.scheduler import LoadScopeScheduling

_TARGET = re.compile(r"\[(?P<node>[^\]]+?)(?:-rail\d+)?\]\Z")


class ByNode(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types for it
    """Distributes items by the node in their names; those about the fleet go together."""

    def _split_scope(self, nodeid: str) -> str:
        return node_in(nodeid)


def node_in(nodeid: str) -> str:
    """Return the node that a test's name is about, empty if it is about the fleet.

    A node that is itself called gpu-rail7 goes with gpu's rails: that costs a connection.
    """
    found = _TARGET.search(nodeid)
    return found["node"] if found else ""
