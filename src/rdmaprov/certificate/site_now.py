"""What was replaced or changed since a certificate was issued: of the site, and of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rdmaprov.acceptance.ask.nodes import Nodes
from rdmaprov.certificate import notary
from rdmaprov.certificate.site import node_digest
from rdmaprov.finding.finding import Finding
from rdmaprov.inventory import Node
from rdmaprov.node.standing import differences


def site_objections(
    predicate: Mapping[str, Any],
    nodes: Sequence[Node],
    connection: Nodes,
    hide: Callable[[Any], Any],
) -> Iterator[Finding]:
    """Yield what is no longer as it was measured.

    Args:
        predicate: of the certificate.
        nodes: of the site, those that the certificate has.
        connection: to them.
        hide: returns data without secrets.

    """
    known = {node.name: node for node in nodes}
    named = predicate["nodes"]
    for name in named.keys() - known.keys():
        yield Finding("certificate.site", "is no node of the site any more", node=name)
    for name, node in known.items():
        if node_digest(node, hide) != named[name]["site_sha256"]:
            yield Finding(
                "certificate.site", "its variables in the site were changed since", node=name
            )
    described = {name: named[name]["described"] for name in known}
    for name, said in notary.read(connection, described).items():
        if isinstance(said, str):
            yield Finding("certificate.replaced", said, node=name, proven=False)
            continue
        was, now = named[name]["identity"], said["identity"]
        found, unknown = differences(was, now)  # type: ignore[no-untyped-call]  # as nodes run it
        yield from (Finding("certificate.replaced", each, node=name) for each in found)
        yield from (
            Finding("certificate.replaced", each, node=name, proven=False) for each in unknown
        )
