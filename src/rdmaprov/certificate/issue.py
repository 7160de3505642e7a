"""The certificate of a gate that passed: put together, countersigned, signed, written and left."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import rdmaprov
from rdmaprov.acceptance.ask.nodes import Nodes
from rdmaprov.acceptance.result import GateResult
from rdmaprov.boundary import RIGHT
from rdmaprov.certificate import notary, of_gate, shape, ssh_signature
from rdmaprov.certificate.ssh_signature import NotSigned
from rdmaprov.certificate.statement import (
    FILE,
    OPERATOR,
    SIGNATURE,
    Part,
    as_bytes,
    described_rails,
    digest,
    equal_objections,
    make_statement,
    node_digest,
    node_text,
    sections,
    time_text,
)
from rdmaprov.certificate.verify import file_digest
from rdmaprov.errors import RdmaprovError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import Node
from rdmaprov.runs.directory import run_time
from rdmaprov.runs.files import write_bytes_whole
from rdmaprov.runs.groups import fold_names
from rdmaprov.words import quantity


class CertificateIncomplete(RdmaprovError):
    """The gate passed, and its certificate is not what was asked for."""

    exit_code = ExitCode.UNKNOWN


@dataclass(frozen=True)
class Terms:
    """What a certificate is to be.

    Args:
        site: its directory, as the user named it.
        nodes: the site's, in order.
        key: the operator's; None for none.
        drains: how many nodes their health check drains at most.
        keys_of: returns for each node the host keys that ssh knows of it, or why there are none.
    """

    site: Path
    nodes: Sequence[Node]
    asked: Mapping[str, Any]
    waivers: Sequence[Mapping[str, Any]]
    hide: Callable[[Any], Any]
    valid_for: timedelta
    key: Path | None
    is_left: bool
    drains: int
    keys_of: Callable[[Sequence[str]], Mapping[str, list[str] | str]]


@dataclass
class Issued:
    """What came of a certificate.

    Attributes:
        problems: what of it was asked for and is missing.
    """

    lines: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def require_all(self) -> None:
        """Raise if something that was asked for is missing.

        Raises:
            CertificateIncomplete: with the first of it.
        """
        if self.problems:
            hint = "The fleet passed. Remove the cause, then run the same command again."
            raise CertificateIncomplete(self.problems[0], hint)


def issue(
    result: GateResult, connection: Nodes, directory: Path, now: datetime, terms: Terms
) -> Issued:
    """Write the certificate of a gate that passed into its run's directory.

    Raises:
        OSError: it cannot be written.
    """
    made = Issued()
    if lacking := [node.name for node in terms.nodes if not _identity(result, node.name)]:
        made.problems.append(f"no certificate: {fold_names(lacking)} did not say what they are")
        return made
    keys, unknown = _known_keys(terms)
    predicate = _predicate(result, directory, now, terms, keys)
    shared = sections(predicate)
    texts = {name: node_text(predicate, name, shared) for name in predicate["nodes"]}
    entries = notary.countersign(connection, texts, keys)
    for name, why in unknown.items():
        entries[name]["missing"] = why
    predicate["countersignatures"] = entries
    if equal := list(equal_objections(predicate)):
        made.problems += [f"no certificate: {fold_names(each.nodes)} {each.what}" for each in equal]
        return made
    statement = make_statement(predicate)
    if (where := shape.STATEMENT(statement)) is not RIGHT:
        made.problems.append(f"no certificate: {where} is not what a certificate has there")
        return made
    data = as_bytes(statement)
    _sign(data, directory / SIGNATURE, terms, made)
    write_bytes_whole(directory / FILE, [data])
    made.lines[:0] = [f"certificate: {directory / FILE}, valid until {predicate['valid_until']}"]
    made.lines += _countersigned(entries)
    if terms.is_left:
        _leave(connection, entries, made, terms.drains)
    return made


def _identity(result: GateResult, name: str) -> Part | None:
    found: Part | None = result.facts.get(name, {}).get("identity")
    return found


def _known_keys(terms: Terms) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the host keys of nodes, and why there are none."""
    keys: dict[str, list[str]] = {}
    unknown: dict[str, str] = {}
    for name, found in terms.keys_of([node.name for node in terms.nodes]).items():
        if isinstance(found, str):
            keys[name], unknown[name] = [], found
        else:
            keys[name] = found
    return keys, unknown


def _predicate(
    result: GateResult, directory: Path, now: datetime, terms: Terms, keys: Mapping[str, list[str]]
) -> Part:
    hide, measured = terms.hide, of_gate.measured_by_node(result)
    taken = {run for stage in result.stages for run in stage.taken}
    digests = {node.name: node_digest(node, hide) for node in terms.nodes}
    nodes = {
        node.name: {
            "described": described_rails(node),
            "identity": hide(_identity(result, node.name)),
            "runtime": hide(of_gate.runtime_of(result, node.name)),
            "site_sha256": digests[node.name],
            "host_keys": keys[node.name],
            "ranks": measured[node.name],
        }
        for node in terms.nodes
    }
    return {
        "id": secrets.token_hex(16),
        "rdmaprov": rdmaprov.__version__,
        "issued": time_text(now),
        "valid_until": time_text(min([now, *map(run_time, taken)]) + terms.valid_for),
        "site": {"name": str(terms.site), "sha256": digest(digests)},
        "asked": dict(terms.asked),
        "waivers": hide([dict(each) for each in terms.waivers]),
        **hide(of_gate.parts_of(result)),
        "logs": list(_logs(directory)),
        "nodes": nodes,
    }


def _logs(directory: Path) -> Iterator[Part]:
    """Yield the files of the run that are complete, with their digests."""
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.name not in (FILE, SIGNATURE):
            name, size = str(path.relative_to(directory)), path.stat().st_size
            yield {"name": name, "bytes": size, "sha256": file_digest(path)}


def _sign(data: bytes, path: Path, terms: Terms, made: Issued) -> None:
    """Write the operator's signature, if there is to be one."""
    if terms.key is None:
        made.lines.append("not signed by an operator: pass --sign KEY")
        return
    try:
        signature = ssh_signature.sign(data, terms.key, OPERATOR)
        key = ssh_signature.signer_of(data, signature, OPERATOR)
    except NotSigned as error:
        made.problems.append(f"the certificate is not signed: {terms.key}: {error}")
        return
    write_bytes_whole(path, [signature])
    made.lines.append(f"signed by {key}")


def _countersigned(entries: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield how many nodes countersigned, and why others did not."""
    missing: dict[str, list[str]] = {}
    for name, entry in entries.items():
        if not entry["signature"]:
            missing.setdefault(entry["missing"], []).append(name)
    count = len(entries) - sum(map(len, missing.values()))
    yield f"countersigned by {count} of {quantity(len(entries), 'node')}"
    for why, names in missing.items():
        yield f"not countersigned by {fold_names(names)}: {why}"


def _leave(
    connection: Nodes, entries: Mapping[str, Mapping[str, str]], made: Issued, drains: int
) -> None:
    failed = notary.leave(connection, entries, drains)
    for name, why in failed.items():
        made.problems.append(f"{name}: its certificate was not left there: {why}")
    made.lines.append(f"left on {quantity(len(entries) - len(failed), 'node')}")
