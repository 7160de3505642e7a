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
    keys_of: Callable[[Sequence[str]], Mapping[str, list[str] | str]],
) -> Iterator[Finding]:
    """Yield what is no longer as it was measured, and what was never measured.

    Args:
        keys_of: returns for each node the host keys that ssh knows of it, or why there are none.
    """
    named = predicate["nodes"]
    known = {node.name: node for node in nodes if node.name in named}
    for node in nodes:
        if node.name not in named:
            what = "is a node of the site that is not in the certificate"
            yield Finding("certificate.site", what, node=node.name, proven=False)
    for name in named.keys() - known.keys():
        yield Finding("certificate.site", "is no node of the site any more", node=name)
    for name, node in known.items():
        if node_digest(node, hide) != named[name]["site_sha256"]:
            yield Finding(
                "certificate.site", "its variables in the site were changed since", node=name
            )
    signed = [name for name in known if predicate["countersignatures"][name]["signature"]]
    for name, keys in keys_of(signed).items():
        if isinstance(keys, str):
            what = f"its host key: {keys}"
            yield Finding("certificate.countersignature", what, node=name, proven=False)
        elif predicate["countersignatures"][name]["key"] not in keys:
            what = "was made with a host key that known_hosts does not have for it now"
            yield Finding("certificate.countersignature", what, node=name)
    described = {name: named[name]["described"] for name in known}
    for name, said in notary.read(connection, described).items():
        if isinstance(said, str):
            yield Finding("certificate.replaced", said, node=name, proven=False)
            continue
        was, now = named[name]["identity"], said["identity"]
        found, *again = differences(was, now)  # type: ignore[no-untyped-call]  # as nodes run it
        yield from (Finding("certificate.replaced", each, node=name) for each in found)
        for each in (one for texts in again for one in texts):
            yield Finding("certificate.replaced", each, node=name, proven=False)
