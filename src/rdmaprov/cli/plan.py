"""`rdmaprov plan`: what apply would change."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Unpack

import click

from rdmaprov.apply import summary
from rdmaprov.apply.run import ApplyRequest
from rdmaprov.cli import run_options
from rdmaprov.cli.check import limit_option, site_argument
from rdmaprov.cli.verbosity import verbosity_options


@click.command(short_help="Say what apply would change.")
@site_argument
@limit_option
@run_options.roles_option
@click.option("--diff", is_flag=True, help="Show the files' differences.")
@run_options.json_option
@run_options.password_options
@verbosity_options
def plan(
    site: Path,
    limit: str | None,
    roles: str,
    diff: bool,
    json_file: IO[str] | None,
    **asked: Unpack[run_options.Asked],
) -> int:
    """Say what apply would change on a site's nodes, and change nothing.

    The same change of several nodes is one line. Everything is kept under runs/, without
    secrets. Exits with 0 if nothing is to change, 5 if something is, 1 if a node does not fit
    the site, 4 if a node could not be read.
    """
    named = run_options.known_roles(roles)
    with run_options.prepared(site, limit, json_file, asked) as ready:
        request = ApplyRequest("plan", site, ready.nodes, limit, named, {}, ready.arguments)
        with run_options.start_run(request, ready) as run:
            results = run.run_playbook("plan")
            lines = summary.plan_lines(results, diffs=diff)
            return run_options.finish(run, results, lines, ready.screen, json_file)
