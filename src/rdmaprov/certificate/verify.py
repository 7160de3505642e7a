"""Whether a certificate is valid, from its files alone; else exactly what is wrong."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from rdmaprov.acceptance.preflight.needs import MAX_SKEW_S
from rdmaprov.boundary import RIGHT
from rdmaprov.certificate import shape, ssh_signature
from rdmaprov.certificate.countersigned import countersignature_objections
from rdmaprov.certificate.read import read_certificate, read_signature
from rdmaprov.certificate.recompute import verdict_objections
from rdmaprov.certificate.ssh_signature import NotSigned
from rdmaprov.certificate.statement import OPERATOR, digest, equal_objections, parse_time
from rdmaprov.finding.finding import Finding


@dataclass(frozen=True)
class Verification:
    """What came of verifying a certificate."""

    # as it was read; its shape is right only where no objection is about that
    statement: Mapping[str, Any]
    signer: str  # who signed it, as the file of allowed signers has it; empty if that is not known
    key: str  # the fingerprint of the key; empty without a signature that is of this file
    objections: list[Finding]


def verify(path: Path, allowed: Path | None, now: datetime) -> Verification:
    """Return what is wrong with a certificate.

    Args:
        path: its file; the operator's signature and the logs lie beside it.
        allowed: a file of allowed signers (ssh-keygen(1)); None if there is none.

    Raises:
        UsageError: a file cannot be read, or is no certificate.
    """
    data, statement = read_certificate(path)
    signer, key, found = _operator(data, read_signature(path), allowed)
    where = shape.STATEMENT(statement)
    if where is not RIGHT:
        found.append(
            Finding("certificate.shape", "is not what a certificate has there", part=where or "")
        )
        return Verification(statement, signer, key, found)
    predicate = statement["predicate"]
    found += countersignature_objections(predicate)
    found += _subjects(statement)
    found += equal_objections(predicate)
    found += verdict_objections(predicate)
    found += _time(predicate, now)
    found += _logs(predicate, path.parent)
    return Verification(statement, signer, key, found)


def _operator(
    data: bytes, signature: bytes | None, allowed: Path | None
) -> tuple[str, str, list[Finding]]:
    """Return who signed, with which key, and what is wrong with that."""
    if signature is None:
        return "", "", [Finding("certificate.signer", "no operator signed it", proven=False)]
    try:
        key = ssh_signature.signer_of(data, signature, OPERATOR)
    except NotSigned as error:
        what = f"the signature beside it is not of this content: {error}"
        return "", "", [Finding("certificate.altered", what)]
    if allowed is None:
        what = f"signed by {key}; pass --allowed-signers to verify whose key that is"
        return "", key, [Finding("certificate.signer", what, proven=False)]
    try:
        return ssh_signature.principal_of(data, signature, OPERATOR, allowed), key, []
    except NotSigned as error:
        what = f"signed by {key}, which {allowed} does not allow: {error}"
        return "", key, [Finding("certificate.signer", what)]


def _subjects(statement: Mapping[str, Any]) -> Iterator[Finding]:
    nodes = statement["predicate"]["nodes"]
    named = [each["name"] for each in statement["subject"]]
    if named != list(nodes):
        yield Finding(
            "certificate.altered",
            "does not name the nodes of the predicate, in order",
            part="subject",
        )
        return
    for index, each in enumerate(statement["subject"]):
        if each["digest"]["sha256"] != digest(nodes[each["name"]]):
            what = f"is not the digest of predicate/nodes/{each['name']}"
            yield Finding("certificate.altered", what, part=f"subject/{index}/digest")


def _time(predicate: Mapping[str, Any], now: datetime) -> Iterator[Finding]:
    issued, until = (parse_time(predicate[name]) for name in ("issued", "valid_until"))
    if until <= issued:
        yield Finding(
            "certificate.altered", "is before it was issued", part="predicate/valid_until"
        )
    elif now > until:
        what = f"it was valid until {predicate['valid_until']}; accept the fleet again"
        yield Finding("certificate.expired", what, proven=False)
    if issued > now + timedelta(seconds=MAX_SKEW_S):
        what = f"it was issued at {predicate['issued']}, which this clock has yet to reach"
        yield Finding("certificate.expired", what, proven=False)


def _logs(predicate: Mapping[str, Any], directory: Path) -> Iterator[Finding]:
    """Yield the logs beside a certificate that are not those it was made with."""
    for each in predicate["logs"]:
        path = directory / each["name"]
        if ".." in Path(each["name"]).parts:
            yield Finding("certificate.altered", "is no file of a run", part=each["name"])
        elif path.is_file():
            yield from _log(each, path)


def _log(said: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    try:
        if file_digest(path) != said["sha256"]:
            yield Finding(
                "certificate.log", "was changed since the certificate was issued", part=said["name"]
            )
    except OSError as error:
        yield Finding(
            "certificate.log", f"cannot be read: {error.strerror}", part=said["name"], proven=False
        )


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
