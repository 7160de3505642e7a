"""What `rdmaprov apply` does; apart from its options, so that help stays fast."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Unpack

import click

from rdmaprov.apply import limits, summary
from rdmaprov.apply.results import NodeState
from rdmaprov.apply.run import ApplyRequest, Run
from rdmaprov.cli import session
from rdmaprov.cli.options import PasswordOptions
from rdmaprov.cli.site_lock import node_lock_variables, site_lock
from rdmaprov.drift.fleet import probe_fleet
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.runs.screen import Screen
from rdmaprov.scheduler.choice import choose_scheduler
from rdmaprov.scheduler.no_scheduler import NoScheduler
from rdmaprov.terminal import Line
from rdmaprov.words import quantity


def converge(
    site: Path,
    limit: str | None,
    roles: str,
    serial: str | None,
    max_failures: str | None,
    reboot: str | None,
    drifted: bool,
    force_busy: bool,
    ask: bool,
    wait_s: float,
    json_file: IO[str] | None,
    **passwords: Unpack[PasswordOptions],
) -> int:
    """Bring the nodes of a site to its state; return the exit code."""
    if ask and not sys.stdin.isatty():
        raise UsageError(
            "--ask needs a terminal", f"Leave it out, or read the plan: rdmaprov plan {site}"
        )
    named = session.known_roles(roles)
    batch = limits.parse_share("--serial", serial, 1) if serial is not None else None
    most = (
        limits.parse_share("--max-failures", max_failures, 0) if max_failures is not None else None
    )
    with (
        site_lock(site, wait_s),
        session.prepare(site, limit, json_file, passwords) as ready,
    ):
        scheduler = choose_scheduler(ready.fleet.nodes)
        if batch is not None and not isinstance(scheduler, NoScheduler):
            others = {"--ask": ask, "--json": json_file, "--max-failures": max_failures}
            _require_alone(others)
            from rdmaprov.cli.apply_rolling import Rolling  # with pytest, which takes a while

            variables = _variables(None, None, reboot, 0)
            variables |= {"apply_force_busy": True} if force_busy else {}
            return Rolling(site, ready, scheduler, named, variables, wait_s).run(batch)
        request = ApplyRequest(
            "apply", site, ready.nodes, limit, named, {}, ready.arguments, ready.waivers
        )
        with session.start_run(request, ready) as run:
            if drifted and not _narrow(run, ready, named):
                stopped = run.results_so_far(interrupted=True)
                lines = summary.apply_lines(stopped)
                return session.finish(run, stopped, lines, ready.screen, json_file)
            run.add_variables(_variables(batch, most, reboot, len(run.nodes)))
            if force_busy:
                run.add_variables({"apply_force_busy": True})
            run.add_variables(node_lock_variables(run.path, wait_s))
            if ask and (code := _confirm(run, ready.screen, json_file)) is not None:
                return code
            results = run.run_playbook("apply")
            lines = summary.apply_lines(results)
            return session.finish(run, results, lines, ready.screen, json_file)


def _require_alone(others: Mapping[str, object]) -> None:
    """Raise if options are given that a rolling apply does not have.

    Raises:
        UsageError: it stops at the first failure, and each batch has a run with results of its own.

    """
    for option, value in others.items():
        if value:
            raise UsageError(
                f"{option} and --serial exclude each other where scheduler_kind names a scheduler",
                "Pass one of them; plan shows what would change",
            )


def _narrow(run: Run, ready: session.Prepared, roles: tuple[str, ...]) -> bool:
    """Probe the nodes and drop those that need nothing; return False for an interrupt."""
    count = len(ready.nodes)
    ready.screen.remark(Line(f"probing {quantity(count, 'node')}"))
    try:
        with ready.screen.meter("probing", count) as moving:
            found = probe_fleet(ready.fleet, roles, ready.given.become, moving.advance)
    except KeyboardInterrupt:
        return False
    run.leave_out_proven(found)
    for line in summary.probe_lines(found):
        ready.screen.show(line)
    return True


def _variables(
    serial: limits.Share | None, most: limits.Share | None, reboot: str | None, nodes: int
) -> dict[str, object]:
    """Return the variables that the options set for the playbook."""
    variables: dict[str, object] = {}
    if serial is not None:
        variables["apply_serial"] = str(serial)
    if most is not None:
        variables["apply_max_failures"] = limits.max_fail_percentage(most, serial, nodes)
    if reboot is not None:
        variables["apply_reboot"] = reboot
    return variables


def _confirm(run: Run, screen: Screen, json_file: IO[str] | None) -> ExitCode | None:
    """Show the plan and ask; return an exit code if nothing is pending or the answer is no."""
    planned = run.run_playbook("plan")
    lines = summary.plan_lines(planned, diffs=False)
    if planned.interrupted or not planned.in_state(NodeState.PENDING):
        return session.finish(run, planned, lines, screen, json_file)
    run.write(planned)
    session.page_line(run.directory)  # the page stays if the user says no
    for line in lines:
        screen.show(line)
    if click.confirm("Apply these changes?", err=True):
        return None
    run.directory.require_all()
    return planned.exit_code()
