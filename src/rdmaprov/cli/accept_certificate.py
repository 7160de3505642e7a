"""The certificate of `rdmaprov accept`: what was asked for, and its end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rdmaprov.acceptance.ask.nodes import Nodes
from rdmaprov.acceptance.launchers.choice import LaunchChoice
from rdmaprov.acceptance.options import Options
from rdmaprov.acceptance.result import GateResult
from rdmaprov.certificate import notary
from rdmaprov.certificate.issue import Issued, Terms, issue
from rdmaprov.certificate.known_hosts import host_keys
from rdmaprov.certificate.ssh_signature import require_key
from rdmaprov.certificate.statement import FILE, time_text
from rdmaprov.cli.session import Prepared
from rdmaprov.exit_codes import ExitCode
from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.envelope import Head


def certificate_terms(
    ready: Prepared,
    head: Head,
    options: Options,
    asked: Mapping[str, Any],
    chosen: LaunchChoice,
    key: Path | None,
    is_left: bool,
) -> Terms:
    """Return what the certificate is to be.

    Raises:
        UsageError: the key cannot sign; better now than when all is measured.
    """
    first = ready.fleet.nodes[0]
    named = str(first.get("fabric_certificate_key") or "")
    key = key or (Path(named).expanduser() if named else None)
    if key is not None:
        require_key(key)
    return Terms(
        site=head.site,
        nodes=ready.fleet.nodes,
        asked={
            **asked,
            "backend": options.backend,
            "sizes": list(options.sizes),
            "stages": list(options.stages),
            "soak_s": options.soak_s,
            "pairs": options.pairs,
        },
        waivers=ready.waivers,
        hide=ready.mask.data,
        valid_for=timedelta(days=int(first.get("fabric_certificate_days") or 0)),
        key=key,
        is_left=is_left or bool(first.get("fabric_certificate_on_nodes")),
        drains=int(first.get("fabric_certificate_drains") or 0),
        keys_of=host_keys(ready.fleet, chosen.launcher, ready.given.become),
    )


def certify(result: GateResult, connection: Nodes, directory: RunDirectory, terms: Terms) -> Issued:
    """Issue the certificate if the gate passed; else withdraw that of nodes it found at fault."""
    if result.exit_code() is ExitCode.FAILED and terms.is_left:
        return _withdraw(result, connection)
    if result.exit_code() is not ExitCode.OK:
        return Issued()
    if terms.asked["ignore_validate"]:
        return Issued(["no certificate: --ignore-validate leaves the nodes' settings unknown"])
    try:
        return issue(result, connection, directory.path, datetime.now(UTC), terms)
    except OSError as error:
        directory.missed[directory.path / FILE] = error
        return Issued()


def _withdraw(result: GateResult, connection: Nodes) -> Issued:
    when = time_text(datetime.now(UTC))
    reasons = {
        name: f"at {when}: {finding.what}"
        for finding in reversed(result.findings)
        if finding.proven
        for name in finding.nodes
        if name in result.nodes
    }
    failed = notary.withdraw(connection, reasons)
    said = "its certificate was not withdrawn"
    return Issued([f"{name}: {said}: {why}" for name, why in failed.items()])
