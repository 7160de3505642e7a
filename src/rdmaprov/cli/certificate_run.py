"""What `rdmaprov certificate` does; apart from its options, so that help stays fast."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from rdmaprov.acceptance.ask.nodes import connect
from rdmaprov.certificate import notary
from rdmaprov.certificate.known_hosts import host_keys
from rdmaprov.certificate.objection import VERDICTS, as_data, line
from rdmaprov.certificate.site_now import site_objections
from rdmaprov.certificate.verify import Verification
from rdmaprov.certificate.verify import verify as verify_certificate
from rdmaprov.cli import session
from rdmaprov.cli.options import PasswordOptions
from rdmaprov.errors import UnreachableError, UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.finding.finding import Finding, exit_code
from rdmaprov.problem import printable
from rdmaprov.words import quantity


def verify_file(
    file: Path, allowed: Path | None, site: Path | None, as_json: bool, passwords: PasswordOptions
) -> int:
    """Print whether a certificate is valid, or what is wrong; return the exit code.

    Raises:
        UsageError: the file is no certificate.
    """
    found = verify_certificate(file, allowed, datetime.now(UTC))
    objections = list(found.objections)
    if site is not None and all(each.kind != "certificate.shape" for each in objections):
        objections += _since(site, found.statement["predicate"], passwords)
    code = exit_code(objections)
    if as_json:
        click.echo(json.dumps(_document(file, found, objections), indent=2))
    else:
        for each in objections:
            click.echo(line(each))
        click.echo(printable(f"{file}: {VERDICTS[code]}{_terms(found, code)}"))
    return code


def _since(site: Path, predicate: dict[str, Any], passwords: PasswordOptions) -> list[Finding]:
    """Return what was replaced or changed since, by the site and its nodes."""
    with session.prepare(site, None, None, passwords) as ready:
        named = predicate["nodes"]
        fleet = ready.fleet
        if not any(node.name in named for node in fleet.nodes):
            raise UsageError(f"{site}: it has none of the certificate's nodes", "Name their site")
        with connect(fleet, ready.given.become) as connection:
            keys = host_keys(fleet, "ssh", ready.given.become)
            hide = ready.mask.data
            return list(site_objections(predicate, fleet.nodes, connection, hide, keys))


def _terms(found: Verification, code: ExitCode) -> str:
    """Return until when a certificate is valid, and by whom."""
    if code is not ExitCode.OK:
        return ""
    predicate = found.statement["predicate"]
    nodes = quantity(len(predicate["nodes"]), "node")
    signer = f"signed by {found.signer} ({found.key}), countersigned by {nodes}"
    return f" until {predicate['valid_until']}; {signer}"


def _document(file: Path, found: Verification, objections: list[Finding]) -> dict[str, Any]:
    """Return what --json prints; docs/certificate.md describes it."""
    code = exit_code(objections)
    has_shape = all(each.kind != "certificate.shape" for each in objections)
    predicate = found.statement["predicate"] if has_shape else {}
    return {
        "file": str(file),
        "verdict": VERDICTS[code],
        "exit_code": int(code),
        "issued": predicate.get("issued"),
        "valid_until": predicate.get("valid_until"),
        "signer": found.signer or None,
        "key": found.key or None,
        "nodes": list(predicate.get("nodes", ())),
        "objections": [as_data(each) for each in objections],
    }


def check_node(site: Path, name: str, passwords: PasswordOptions) -> int:
    """Print what the certificate says that was left on a node; return the exit code.

    Raises:
        UsageError: the name is no node's.
        UnreachableError: the node gave no answer.
    """
    with session.prepare(site, name, None, passwords) as ready:
        if ready.nodes != (name,):
            raise UsageError(f"{name}: matches {quantity(len(ready.nodes), 'node')}", "Name one")
        with connect(ready.fleet, ready.given.become) as connection:
            said = notary.check(connection, ready.nodes)[name]
    if isinstance(said, str):
        raise UnreachableError(f"{name}: {said}", f"Check {name}: rdmaprov validate {site}")
    click.echo(printable(f"{name}: {said['line']}"))
    return {0: ExitCode.OK, 1: ExitCode.FAILED}.get(said["code"], ExitCode.UNKNOWN)
