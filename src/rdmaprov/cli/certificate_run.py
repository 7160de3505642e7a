"""What `rdmaprov certificate` does; apart from its options, so that help stays fast."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from rdmaprov.acceptance.ask.nodes import Nodes, connect
from rdmaprov.certificate import notary
from rdmaprov.certificate.known_hosts import host_keys
from rdmaprov.certificate.statement import node_digest
from rdmaprov.certificate.verify import Verification
from rdmaprov.certificate.verify import verify as verify_certificate
from rdmaprov.cli import session
from rdmaprov.cli.options import PasswordOptions
from rdmaprov.errors import UnreachableError, UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.finding.finding import Finding, exit_code
from rdmaprov.inventory import Node
from rdmaprov.node.standing import differences
from rdmaprov.problem import printable
from rdmaprov.runs.groups import fold_names
from rdmaprov.words import quantity

VERDICTS = {ExitCode.OK: "valid", ExitCode.FAILED: "refused", ExitCode.UNKNOWN: "unknown"}


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


def as_data(found: Finding) -> dict[str, object]:
    """Return a finding as `--json` has it; docs/certificate.md describes it.

    `where` is the node or the place in the file, such as `predicate/floors/0/verdict`; empty for
    all of the file.
    """
    return {
        "kind": found.kind.removeprefix("certificate."),
        "where": found.node or fold_names(found.nodes) or found.part,
        "what": found.what,
        "proven": found.proven,
    }


def line(found: Finding) -> str:
    """Return a finding as one line that no terminal obeys."""
    data = as_data(found)
    where = f"{data['where']}: " if data["where"] else ""
    unknown = "" if found.proven else "unknown: "
    return printable(f"{unknown}{data['kind']}: {where}{found.what}")


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
