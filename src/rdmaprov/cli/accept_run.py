"""What `rdmaprov accept` does; apart from its options, so that help stays fast."""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, Unpack

from rdmaprov.acceptance.ask.nodes import Nodes
from rdmaprov.acceptance.gate import Gate
from rdmaprov.acceptance.launchers.choice import LaunchChoice, choose, with_launcher
from rdmaprov.acceptance.launchers.opening import open_nodes
from rdmaprov.acceptance.ledger import KeptProofs, read_ledger
from rdmaprov.acceptance.options import Options, parse_duration
from rdmaprov.acceptance.ranks.events import RankEvent
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.stage_report import parse_stages
from rdmaprov.acceptance.stages.resume import (
    FILE,
    Resumed,
    as_text,
    find_run,
    identity,
    read_stages,
)
from rdmaprov.acceptance.summary import summary_lines
from rdmaprov.bandwidth import rates
from rdmaprov.certificate import notary
from rdmaprov.certificate.issue import Issued, Terms, issue
from rdmaprov.certificate.known_hosts import host_keys
from rdmaprov.certificate.ssh_signature import require_key
from rdmaprov.certificate.statement import FILE as CERTIFICATE_FILE
from rdmaprov.certificate.statement import node_digest, time_text
from rdmaprov.cli import session
from rdmaprov.cli.idle_nodes import HOLD_S, hold_idle, select_idle
from rdmaprov.cli.options import PasswordOptions
from rdmaprov.cli.session import Prepared
from rdmaprov.cli.site_lock import site_lock
from rdmaprov.exit_codes import ExitCode
from rdmaprov.problem import printable
from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.envelope import Head, results_document
from rdmaprov.runs.estimate import expected
from rdmaprov.runs.last_word import last_words
from rdmaprov.runs.screen import Screen
from rdmaprov.terminal import Line, Meter


def measure(
    site: Path,
    limit: str | None,
    is_idle: bool,
    backend: str,
    size_range: str,
    pairs: bool,
    cross_rail: bool,
    isolate: str,
    launcher: str | None,
    slurm_job: str | None,
    stages: str,
    soak: str,
    keep_going: str,
    join: bool,
    resume: str | None,
    timeout: float | None,
    ignore_validate: bool,
    key: Path | None,
    is_left: bool,
    wait_s: float,
    json_file: IO[str] | None,
    **passwords: Unpack[PasswordOptions],
) -> int:
    """Run the gate over the nodes of a site; return the exit code."""
    wanted = rates.parse_sizes(size_range) if size_range else ()
    options = Options(
        backend,
        wanted,
        pairs,
        isolate == "auto",
        timeout,
        parse_stages(stages),
        parse_duration(soak),
        keep_going == "auto",
        cross_rail,
        join,
    )
    with (
        site_lock(site, wait_s),
        session.prepare(site, limit, json_file, passwords) as whole,
        ExitStack() as stack,
    ):
        chosen = choose(whole.fleet.nodes, launcher or "", slurm_job or "")
        ready = stack.enter_context(_idle(whole, site, options, chosen)) if is_idle else whole
        limit = ",".join(ready.nodes) if is_idle else limit
        if resume is None:
            count, soak_s = len(ready.nodes), options.soak_s
            took = expected(site, "accept", count, stages=options.stages, soak_s=soak_s)
            session.say_expected(ready.screen, took)
        result, _ = run_gate(
            site,
            limit,
            ready,
            options,
            chosen,
            resume=resume,
            ignore_validate=ignore_validate,
            key=key,
            is_left=is_left,
            json_file=json_file,
        )
    return result.exit_code()


def _idle(
    ready: session.Prepared, site: Path, options: Options, chosen: LaunchChoice
) -> AbstractContextManager[session.Prepared]:
    """Provide the idle nodes alone; a job of the launcher's would not start in a reservation."""
    if chosen.is_job:
        return nullcontext(select_idle(ready))
    return hold_idle(ready, site, HOLD_S + options.soak_s)


def run_gate(
    site: Path,
    limit: str | None,
    ready: session.Prepared,
    options: Options,
    chosen: LaunchChoice,
    *,
    resume: str | None = None,
    ignore_validate: bool = False,
    key: Path | None = None,
    is_left: bool = False,
    json_file: IO[str] | None = None,
) -> tuple[GateResult, Path]:
    """Run the gate in a run's directory; return its result and that directory.

    Args:
        resume: the run to take up, or `newest`; None for none.
        ignore_validate: whether to measure nodes whose last validate did not pass.
        key: signs the certificate; None for the site's.
        is_left: whether nodes get their part of it, even if the site does not ask for that.
    """
    with RunDirectory("accept", ready.mask, log="ranks.jsonl") as directory:
        same = identity(ready.fleet.site, ready.nodes, options)
        known = _known_stages(resume, same, ready.screen)

        def keep(result: GateResult) -> None:
            directory.write_text(FILE, as_text(same, result.stages, result.nodes_as_data()))

        head = Head("accept", site, limit, datetime.now(UTC), ready.waivers)
        asked = {"limit": limit, "ignore_validate": ignore_validate}
        terms = certificate_terms(ready, head, options, asked, chosen, key, is_left)
        with (
            ready.screen.meter("connecting", unit="sizes") as moving,
            open_nodes(ready.fleet, chosen, options.limit_s, ready.given.become) as connection,
        ):
            progress = _Progress(directory, ready.screen, moving)
            result = Gate(
                tuple(with_launcher(node, chosen.launcher) for node in ready.fleet.nodes),
                connection,
                options,
                directory.keep_log,
                progress.tell,
                progress.hear,
                lambda count: moving.count(0, count),
                # What nobody has validated is not measured.
                None if ignore_validate else last_words(ready.fleet.site, ready.nodes),
                known,
                keep,
                limit is not None,
                _kept_proofs(ready, options.join),
                {node.name: node_digest(node, ready.mask.data) for node in ready.fleet.nodes},
            ).run()
            text = directory.write_results(document(head, datetime.now(UTC), result))
            terms = replace(terms, asked={**terms.asked, "resumed": result.resumed})
            issued = certify(result, connection, directory, terms)
    lines = [*summary_lines(result), *map(Line, issued.lines)]
    session.conclude(directory, text, lines, ready.screen, json_file)
    issued.require_all()
    return result, directory.path


def _kept_proofs(ready: Prepared, is_wanted: bool) -> KeptProofs:
    """Return what kept runs say of the nodes, if that is wanted; as long as a certificate lasts."""
    days = int(ready.fleet.nodes[0].get("fabric_certificate_days") or 0)
    return read_ledger(ready.fleet.site, ready.nodes, days) if is_wanted else {}


def _known_stages(resume: str | None, same: Mapping[str, Any], screen: Screen) -> Resumed:
    """Return the run to resume; an empty one where there is nothing to resume."""
    if resume is None:
        return Resumed()
    run = find_run(same) if resume == "newest" else Path(resume)
    if run is None:
        screen.remark(Line("no interrupted run of the same site, nodes and options: new run"))
        return Resumed()
    screen.remark(Line(f"resuming {run}"))
    return read_stages(run, same)


@dataclass(frozen=True)
class _Progress:
    """Reports the gate's progress to the user and the log."""

    directory: RunDirectory
    screen: Screen
    moving: Meter

    def tell(self, text: str) -> None:
        """Show the stage that starts now."""
        self.moving.what = text.partition(":")[0].partition(",")[0]
        self.moving.count(0, 0)
        self.screen.remark(Line(text))

    def hear(self, event: RankEvent) -> None:
        """Log an event; rank 0 drives the progress line."""
        text = json.dumps(event)
        self.directory.log(text)
        self.screen.detail(text)
        if event["rank"] == 0 and event["event"] == "phase":
            self.moving.what = printable(str(event["phase"]))
        elif event["rank"] == 0 and event["event"] == "checked":
            self.moving.advance()


def document(head: Head, ended: datetime, result: GateResult) -> dict[str, Any]:
    """Return results.json, as docs/results.schema.json defines it."""
    return results_document(
        head, ended, result.exit_code(), result.nodes_as_data(), result.as_data()
    )


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
        directory.missed[directory.path / CERTIFICATE_FILE] = error
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
