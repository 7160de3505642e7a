"""`rdmaprov plan`: show what apply would change."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Unpack

import click

from rdmaprov.cli.options import (
    PasswordOptions,
    json_option,
    limit_option,
    optional_site_argument,
    password_options,
    record_option,
    roles_option,
    site_or_record,
)
from rdmaprov.cli.publish import publish_options, publish_targets
from rdmaprov.cli.verbosity import verbosity_options


@click.command(
    short_help="Show what apply would change.",
    epilog="Exit codes: 0 nothing to change, 1 a role failed on a node or refused it, 3 the site"
    " is invalid, 4 a node is unreachable, 5 changes pending.",
)
@optional_site_argument
@limit_option
@roles_option
@record_option
@click.option("--diff", is_flag=True, help="Also print the differences in files.")
@json_option
@publish_options
@password_options
@verbosity_options
def plan(
    site: Path | None,
    limit: str | None,
    roles: str,
    record_file: Path | None,
    diff: bool,
    json_file: IO[str] | None,
    **passwords: Unpack[PasswordOptions],
) -> int:
    """Show what `rdmaprov apply` would change on the nodes of SITE; change nothing.

    Nodes with the same change share one line. Logs and results go to runs/, without secrets.
    """
    from rdmaprov.apply import summary
    from rdmaprov.apply.run import ApplyRequest
    from rdmaprov.cli import session

    others = {"limit": limit, **publish_targets()}
    site_or_record(site, record_file, **others, ask_become_pass=passwords["ask_become_pass"])
    named = session.known_roles(roles)
    if record_file is not None:
        from rdmaprov.cli.record_replay import plan_record

        return plan_record(site, record_file, named, diff, json_file, passwords)
    assert site is not None  # noqa: S101 - or it was refused
    with session.prepare(site, limit, json_file, passwords) as ready:
        request = ApplyRequest(
            "plan", site, ready.nodes, limit, named, {}, ready.arguments, ready.waivers
        )
        with session.start_run(request, ready) as run:
            results = run.run_playbook("plan")
            lines = summary.plan_lines(results, diffs=diff)
            return session.finish(run, results, lines, ready.screen, json_file)
