"""What a certificate keeps of a site: the digest of each node's variables, and their rails."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from rdmaprov.certificate.statement import digest
from rdmaprov.inventory import Node


def node_digest(node: Node, hide: Callable[[Any], Any]) -> str:
    """Return the SHA-256 of all variables of a node, defaults included, without secrets.

    Args:
        hide: returns data without secrets; nobody can try passwords against the digest.
    """
    values = dict(sorted(node.values.items()))
    return digest(hide(json.loads(json.dumps(values, default=str))))


def described_rails(node: Node) -> list[dict[str, str]]:
    """Return how the site names each rail, for programs on the node."""
    return [rail.described for rail in node.rails]
