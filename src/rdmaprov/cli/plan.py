"""`rdmaprov plan`: what apply would change."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Unpack

import click

from rdmaprov.cli.options import (
    Asked,
    json_option,
    limit_option,
    password_options,
    roles_option,
    site_argument,
)
from rdmaprov.cli.verbosity import verbosity_options


@click.command(short_help="Say what apply would change.")
@site_argument
@limit_option
@roles_option
@click.option("--diff", is_flag=True, help="Show the files' differences.")
@json_option
@password_options
@verbosity_options
def plan(
    site: Path,
    limit: str | None,
    roles: str,
    diff: bool,
    json_file: IO[str] | None,
    **asked: Unpack[Asked],
) -> int:
    """Say what apply would change on a site's nodes, and change nothing.

    The same change of several nodes is one line. Everything is kept under runs/, without
    secrets. Exits with 0 if nothing is to change, 5 if something is, 1 if a node does not fit
    the site, 4 if a node could not be read.
    """
    from rdmaprov.apply import summary
    from rdmaprov.apply.run import Request, opened
    from rdmaprov.cli import session

    named = session.known_roles(roles)
    with session.prepared(site, limit, json_file, asked) as ready:
        request = Request("plan", site, ready.nodes, limit, named, {}, ready.arguments)
        with opened(request, ready.mask, ready.screen) as run:
            results = run.play("plan")
            lines = summary.of_plan(results, diffs=diff)
            return session.finish(run, results, lines, ready.screen, json_file)
