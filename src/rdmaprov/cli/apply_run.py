"""What `rdmaprov apply` does; apart from its options, so that help stays fast."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, Unpack

import click

from rdmaprov.apply import limits, summary
from rdmaprov.apply.progress import Screen
from rdmaprov.apply.results import State
from rdmaprov.apply.run import Request, Run, opened
from rdmaprov.apply.summary import Line
from rdmaprov.cli import session
from rdmaprov.cli.options import Asked
from rdmaprov.drift.fleet import probed
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.report.write import told


def converge(
    site: Path,
    limit: str | None,
    roles: str,
    serial: str | None,
    max_failures: str | None,
    reboot: str | None,
    drifted: bool,
    ask: bool,
    json_file: IO[str] | None,
    **asked: Unpack[Asked],
) -> int:
    """Make a site's nodes what it says; return the exit code."""
    if ask and not sys.stdin.isatty():
        raise UsageError("--ask needs a terminal to ask on", "Leave it out, or see: rdmaprov plan")
    named = session.known_roles(roles)
    batch = limits.share("--serial", serial, 1) if serial is not None else None
    most = limits.share("--max-failures", max_failures, 0) if max_failures is not None else None
    with session.prepared(site, limit, json_file, asked) as ready:
        request = Request("apply", site, ready.nodes, limit, named, {}, ready.arguments)
        with opened(request, ready.mask, ready.screen) as run:
            if drifted and not _narrowed(run, ready, named):
                stopped = run.nothing(interrupted=True)
                lines = summary.of_apply(stopped)
                return session.finish(run, stopped, lines, ready.screen, json_file)
            run.set(_variables(batch, most, reboot, len(run.nodes)))
            if ask and (code := _refused(run, ready.screen, json_file)) is not None:
                return code
            results = run.play("apply")
            lines = summary.of_apply(results)
            return session.finish(run, results, lines, ready.screen, json_file)


def _narrowed(run: Run, ready: session.Prepared, roles: tuple[str, ...]) -> bool:
    """Leave the nodes to run on that the probe cannot prove; return False for an interrupt."""
    count = len(ready.nodes)
    ready.screen.remark(Line(f"probing {count} node{'s' if count > 1 else ''}"))
    try:
        with ready.screen.moving("probing", count) as moving:
            found = probed(ready.fleet, roles, ready.given.become, moving.advance)
    except KeyboardInterrupt:
        return False
    run.narrow(found)
    for line in summary.of_probe(found):
        ready.screen.show(line)
    return True


def _variables(
    serial: limits.Share | None, most: limits.Share | None, reboot: str | None, nodes: int
) -> dict[str, object]:
    """Return the playbook's variables for the options that were given."""
    variables: dict[str, object] = {}
    if serial is not None:
        variables["apply_serial"] = str(serial)
    if most is not None:
        variables["apply_max_failures"] = limits.max_fail_percentage(most, serial, nodes)
    if reboot is not None:
        variables["apply_reboot"] = reboot
    return variables


def _refused(run: Run, screen: Screen, json_file: IO[str] | None) -> ExitCode | None:
    """Show the plan and ask; return the exit code if there is nothing to do or the answer is no."""
    planned = run.play("plan")
    lines = summary.of_plan(planned, diffs=False)
    if planned.interrupted or not planned.of(State.PENDING):
        return session.finish(run, planned, lines, screen, json_file)
    run.write(planned)
    told(run.path)  # the plan is on the screen; its page is there for who says no
    for line in lines:
        screen.show(line)
    if click.confirm("Apply this?", err=True):
        return None
    return planned.exit_code()
