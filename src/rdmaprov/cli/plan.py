"""`rdmaprov plan`: what apply would change."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import click

from rdmaprov.apply import summary
from rdmaprov.apply.run import Request, opened
from rdmaprov.cli import run_options
from rdmaprov.cli.check import limit_option, site_argument
from rdmaprov.interrupt import signals_interrupt


@click.command(short_help="Say what apply would change.")
@site_argument
@limit_option
@run_options.roles_option
@click.option("--diff", is_flag=True, help="Show the files' differences.")
@run_options.json_option
@run_options.password_options
def plan(
    site: Path,
    limit: str | None,
    roles: str,
    diff: bool,
    json_file: IO[str] | None,
    vault_password_file: Path | None,
    ask_vault_pass: bool,
    ask_become_pass: bool,
) -> int:
    """Say what apply would change on a site's nodes, and change nothing.

    The same change of several nodes is one line. Everything is kept under runs/, without
    secrets. Exits with 0 if nothing is to change, 5 if something is, 1 if a node does not fit
    the site, 4 if a node could not be read.
    """
    named = run_options.known_roles(roles)
    with (
        signals_interrupt(),
        run_options.passwords(
            vault_password_file, ask_vault=ask_vault_pass, ask_become=ask_become_pass
        ) as given,
    ):
        fleet, mask = run_options.checked(site, limit, given)
        screen = run_options.screen(mask, json_file)
        nodes = tuple(node.name for node in fleet.nodes)
        request = Request("plan", site, nodes, limit, named, {}, given.arguments)
        with opened(request, mask, screen) as run:
            results = run.play("plan")
            lines = summary.of_plan(results, diffs=diff)
            return run_options.finish(run, results, lines, screen, json_file)
