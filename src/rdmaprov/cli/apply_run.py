"""What `rdmaprov apply` does; apart from its options, so that help stays fast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Unpack

from rdmaprov.apply import limits, summary
from rdmaprov.apply.run import ApplyRequest, Run
from rdmaprov.cli import session
from rdmaprov.cli.apply_agreed import Agreement, is_interactive
from rdmaprov.cli.options import PasswordOptions
from rdmaprov.cli.site_lock import node_lock_variables, site_lock
from rdmaprov.drift.fleet import probe_fleet
from rdmaprov.drift.kept_plan import read_plan
from rdmaprov.errors import UsageError
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
    yes: bool,
    wait_s: float,
    json_file: IO[str] | None,
    **passwords: Unpack[PasswordOptions],
) -> int:
    """Bring the nodes of a site to its state, or do what a kept plan says; return the exit code."""
    kept = read_plan(site)
    if kept is not None:
        others: dict[str, object] = {"--limit": limit, "--roles": roles, "--reboot": reboot}
        others["--drifted"] = drifted
        _require_alone(others, "a plan's file", "the plan says what is done")
        site = kept.site
    named = session.known_roles(roles) if kept is None else kept.roles
    batch = limits.parse_share("--serial", serial, 1) if serial is not None else None
    most = (
        limits.parse_share("--max-failures", max_failures, 0) if max_failures is not None else None
    )
    with site_lock(site, wait_s), session.prepare(site, limit, json_file, passwords) as ready:
        if kept is not None:
            kept.require_site(ready.nodes)
            ready = ready.only(kept.nodes)
        asks = kept is None and not yes and is_interactive(ready.screen)
        agreed = Agreement(ready, reboot, kept, asks, json_file)
        scheduler = choose_scheduler(ready.fleet.nodes)
        if batch is not None and not isinstance(scheduler, NoScheduler):
            others = {"--json": json_file, "--max-failures": max_failures}
            what = "--serial", "where scheduler_kind names a scheduler, each batch has its own run"
            _require_alone(others, *what)
            from rdmaprov.cli.apply_rolling import Rolling  # with pytest, which takes a while

            variables = _variables(None, None, reboot, 0)
            variables |= {"apply_force_busy": True} if force_busy else {}
            return Rolling(site, agreed, scheduler, named, variables, wait_s).run(batch)
        request = ApplyRequest(
            "apply", site, ready.nodes, limit, named, {}, ready.arguments, ready.waivers
        )
        request = replace(request, is_part=kept is not None)
        with session.start_run(request, ready) as run:
            if drifted and not _narrow(run, ready, named):
                stopped = run.results_so_far(interrupted=True)
                lines = summary.apply_lines(stopped)
                return session.finish(run, stopped, lines, ready.screen, json_file)
            run.add_variables(_variables(batch, most, reboot, len(run.nodes)))
            if force_busy:
                run.add_variables({"apply_force_busy": True})
            run.add_variables(node_lock_variables(run.path, wait_s))
            if (code := agreed.settle(run)) is not None:
                return code
            results = run.run_playbook("apply")
            lines = summary.apply_lines(results)
            return session.finish(run, results, lines, ready.screen, json_file)


def _require_alone(others: Mapping[str, object], what: str, why: str) -> None:
    """Raise a UsageError if options are given that something else leaves no room for."""
    for option, value in others.items():
        if value:
            raise UsageError(f"{option} and {what} exclude each other: {why}", "Pass one of them")


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
