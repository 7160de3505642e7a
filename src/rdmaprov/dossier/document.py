"""The dossier of a node as JSON and as a page; docs/dossier.schema.json describes it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import rdmaprov
from rdmaprov.certificate import ssh_signature
from rdmaprov.certificate.read import read_certificate, read_signature
from rdmaprov.certificate.ssh_signature import NotSigned
from rdmaprov.certificate.statement import FILE, OPERATOR, time_text
from rdmaprov.dossier import evidence, findings, parts
from rdmaprov.dossier.kept import KeptRun, Row, find
from rdmaprov.dossier.redact import Redaction
from rdmaprov.errors import UsageError
from rdmaprov.report.read import damage_error
from rdmaprov.report.write import clean, template
from rdmaprov.runs.envelope import SCHEMA
from rdmaprov.runs.files import write_bytes_whole

NAMESPACE = "rdmaprov-dossier"
_DAMAGE = (KeyError, TypeError, ValueError, AttributeError, IndexError)


def make(named: str, node: str, runs: Path, *, names: bool, now: datetime) -> dict[str, Any]:
    """Return the dossier of a node.

    Args:
        named: the run, by its name or path.
        names: whether users, jobs, other nodes and addresses are named.

    Raises:
        UsageError: there is no such run, or it does not have the node.
        RunUnknown: its results cannot be read.
    """
    run, every = find(named, node, runs)
    try:
        document = {**_head(run, node, names, now), **_document(run, every, node)}
    except _DAMAGE as error:
        what = f"{type(error).__name__}: {error}"
        raise damage_error(run.directory / "results.json", what) from error
    if names:
        return document
    nodes = {name for each in every for name in each.data["nodes"]}
    return Redaction(node, nodes, run.data["site"]).data(document)


def _head(run: KeptRun, node: str, names: bool, now: datetime) -> Row:
    head = {"schema": SCHEMA, "rdmaprov": rdmaprov.__version__, "made": time_text(now)}
    return {**head, "node": node, "run": run.name, "names": names}


def _document(run: KeptRun, runs: Sequence[KeptRun], node: str) -> dict[str, Any]:
    rows = [row for row in findings.of_run(run, node) if not row["skipped"]]
    part = findings.accused(rows, node)
    rail = part["rail"] if part and part["of"] == "rail" else None
    group = {n for r in rows if r["level"] in ("leaf", "pair") and r["proven"] for n in r["nodes"]}
    tests = evidence.tests(run, node, group)
    every = [(each, findings.of_run(each, node)) for each in runs]
    return {
        "accused": part,
        "parts": list(parts.fields(runs, run, node, part)),
        "findings": [{k: v for k, v in row.items() if k != "skipped"} for row in rows],
        "history": list(evidence.history(runs, run, node)),
        "moves": list(parts.moves(runs, run, node, part)),
        "excluded": list(evidence.excluded(runs, run, node, part)),
        "counters": list(evidence.counters(runs, node, rail)),
        "kernel_log": [
            line for each, own in every for line in findings.kernel_lines(each, own, node)
        ],
        "alone": [{**row, **run.origin} for row in evidence.alone(run)],
        "tests": tests,
        "leaves": evidence.leaves(run, tests),
        "versions": list(parts.versions(runs, run, node)),
        "runs": [_run(each) for each in runs],
        "signatures": [row for each in runs for row in _signatures(each, node)],
    }


def _run(run: KeptRun) -> Row:
    times = {key: run.data[key] for key in ("verb", "started", "ended", "verdict", "rdmaprov")}
    return {"run": run.name, "command": run.origin["command"], **times, "sha256": run.sha256}


def _signatures(run: KeptRun, node: str) -> Iterator[Row]:
    """Yield by whom the certificate of a run is signed, if it has one."""
    path = run.directory / FILE
    if not path.is_file():
        return
    try:
        data, statement = read_certificate(path)
        key = ssh_signature.signer_of(data, read_signature(path) or b"", OPERATOR)
    except (UsageError, NotSigned) as error:
        yield run.field("operator", "", f"ssh-keygen -Y check-novalidate: {error}")
        return
    yield run.field("operator", key, "ssh-keygen -Y check-novalidate")
    entry = statement["predicate"]["countersignatures"].get(node, {})
    yield run.field("node", entry.get("key") if entry.get("signature") else "", "its host key")


def write(document: Mapping[str, Any], directory: Path, key: Path | None) -> list[Path]:
    """Write the dossier's files, the page first; return their paths.

    Raises:
        NotSigned: the key cannot sign.
        OSError: a file cannot be written.
    """
    data = (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()
    files = {"dossier.html": page(document).encode("utf-8", "backslashreplace")}
    files["dossier.json"] = data
    if key is not None:
        files["dossier.json.sig"] = ssh_signature.sign(data, key, NAMESPACE)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in files.items():
        write_bytes_whole(directory / name, [content])
    return [directory / name for name in files]


def page(document: Mapping[str, Any]) -> str:
    """Return the dossier as a page."""
    return template("dossier.html.j2").render(of=clean(document))
