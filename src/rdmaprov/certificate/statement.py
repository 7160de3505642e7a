"""The certificate as an in-toto statement: its parts, their digests, and what each node signs.

https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md; docs/certificate.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = "https://github.com/rdmaprov/rdmaprov/blob/main/docs/certificate.md#version-1"
FILE, SIGNATURE = "certificate.json", "certificate.json.sig"
# ssh-keygen(1), -n: a signature that was made for one purpose is none for another.
OPERATOR, NODE = "rdmaprov-certificate", "rdmaprov-node"
_TIME = "%Y-%m-%dT%H:%M:%SZ"
Part = dict[str, Any]


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
    """Return the time that a text of a certificate means.

    Raises:
        ValueError: it means none.
    """
    return datetime.strptime(text, _TIME).replace(tzinfo=UTC)
