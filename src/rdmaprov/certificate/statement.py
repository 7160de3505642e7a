"""The certificate as an in-toto statement: its parts, their digests, and what each node signs.

https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md; docs/certificate.md.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from rdmaprov.finding.finding import Finding
from rdmaprov.inventory import Node

_MACHINE = {"serial": "serial number", "uuid": "UUID", "board_serial": "mainboard's serial number"}
TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = "https://github.com/rdmaprov/rdmaprov/blob/main/docs/certificate.md#version-1"
FILE, SIGNATURE = "certificate.json", "certificate.json.sig"
# ssh-keygen(1), -n: a signature that was made for one purpose is none for another.
OPERATOR, NODE = "rdmaprov-certificate", "rdmaprov-node"
_TIME = "%Y-%m-%dT%H:%M:%SZ"
Part = dict[str, Any]


def equal_objections(predicate: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the host keys, serial numbers, UUIDs and GUIDs that several nodes say they have."""
    owners: dict[tuple[str, str], dict[str, None]] = {}
    for name, own in predicate["nodes"].items():
        for part in _parts(own):
            owners.setdefault(part, {})[name] = None
    for (what, value), names in owners.items():
        if value and len(names) > 1:
            text = f"have the same {what}: {value}"
            yield Finding("certificate.equal", text, nodes=tuple(names), level="node")


def _parts(own: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a node alone must have: of what kind, and its value."""
    identity = own["identity"]
    for key in own["host_keys"]:
        yield "host key", key
    for field, word in _MACHINE.items():
        yield word, identity["machine"][field]
    for rail in identity["rails"]:
        yield "GUID of a NIC", rail["guid"]
    for gpu in identity["gpus"]:
        if "?" not in gpu["uuid"]:  # the driver does not show it
            yield "UUID of a GPU", gpu["uuid"]


def canonical(data: object) -> str:
    """Return data as the one JSON text that its digest is of: sorted keys, ASCII, no spaces."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(data: object) -> str:
    """Return the SHA-256 of data, in hexadecimal digits."""
    return hashlib.sha256(canonical(data).encode()).hexdigest()


def make_statement(predicate: Mapping[str, Any]) -> Part:
    """Return the statement whose subjects are the nodes, each with the digest of its own part."""
    return {
        "_type": TYPE,
        "subject": [
            {"name": name, "digest": {"sha256": digest(own)}}
            for name, own in predicate["nodes"].items()
        ],
        "predicateType": PREDICATE,
        "predicate": predicate,
    }


def as_bytes(statement: Mapping[str, Any]) -> bytes:
    """Return the file of a certificate, of which the operator's signature is."""
    return (json.dumps(statement, indent=1, allow_nan=False) + "\n").encode()


def sections(predicate: Mapping[str, Any]) -> dict[str, str]:
    """Return the digests of the parts that all nodes have in common; of nodes, their names."""
    parts = {**predicate, "nodes": sorted(predicate["nodes"])}
    return {name: digest(part) for name, part in parts.items() if name != "countersignatures"}


def node_text(predicate: Mapping[str, Any], name: str, shared: Mapping[str, str]) -> str:
    """Return the text that a node signs: what it is and measured, and the digests of the rest.

    Args:
        shared: its `sections`.
    """
    return canonical(
        {
            "node": name,
            "certificate": predicate["id"],
            "issued": predicate["issued"],
            "valid_until": predicate["valid_until"],
            "own": predicate["nodes"][name],
            "sections": shared,
        }
    )


def time_text(time: datetime) -> str:
    """Return a time as certificates have it: UTC, whole seconds."""
    return time.astimezone(UTC).strftime(_TIME)


def parse_time(text: str) -> datetime:
    """Return the time that a text of a certificate means; raise ValueError if it means none."""
    return datetime.strptime(text, _TIME).replace(tzinfo=UTC)


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
