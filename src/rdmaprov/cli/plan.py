"""`rdmaprov plan`: show what apply would change."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Unpack

import click

from rdmaprov.cli.options import (
    PasswordOptions,
    json_option,
    limit_option,
    password_options,
    roles_option,
    site_argument,
)
from rdmaprov.cli.verbosity import verbosity_options


@click.command(
    short_help="Show what apply would change.",
    epilog="Exit codes: 0 nothing to change, 1 a node does not match the site, 3 the site is"
    " invalid, 4 a node is unreachable, 5 changes pending.",
)
@site_argument
@limit_option
@roles_option
@click.option("--diff", is_flag=True, help="Also print the differences in files.")
@json_option
@password_options
@verbosity_options
def plan(
    site: Path,
    limit: str | None,
    roles: str,
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

    named = session.known_roles(roles)
    with session.prepare(site, limit, json_file, passwords) as ready:
        request = ApplyRequest(
            "plan", site, ready.nodes, limit, named, {}, ready.arguments, ready.waivers
        )
        with session.start_run(request, ready) as run:
            results = run.run_playbook("plan")
            lines = summary.plan_lines(results, diffs=diff)
            return session.finish(run, results, lines, ready.screen, json_file)
