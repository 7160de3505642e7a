"""`rdmaprov validate`: nodes are judged by what the site says."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import click

from rdmaprov.cli.options import json_option, limit_option, site_argument, vault_file_option
from rdmaprov.cli.verbosity import verbosity
from rdmaprov.errors import UsageError
from rdmaprov.verbosity import Verbosity

# pytest has these options too, and takes those behind the site.
_VERBOSITY = {Verbosity.QUIET: ("-q",), Verbosity.NORMAL: (), Verbosity.VERBOSE: ("-v",)}


@click.command(
    short_help="Judge nodes by what the site says.",
    context_settings={"ignore_unknown_options": True},
)
@site_argument
@limit_option
@click.option(
    "--hosts",
    metavar="SPEC,…",
    help="Use testinfra's own connections, such as ssh://gpu07 or local://.",
)
@json_option
@vault_file_option
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST OPTIONS]…")
def validate(
    site: Path,
    limit: str | None,
    hosts: str | None,
    json_file: IO[str] | None,
    vault_password_file: Path | None,
    options: tuple[str, ...],
) -> int:
    """Run the test suite on a site's nodes, over one connection to each; change nothing.

    Takes pytest's options (-k, -m, -x, --lf, -n) and names of the suite's files. Everything is
    kept under runs/, without secrets. Exits with 1 if a check failed, and with 4 if the only
    trouble is that something could not be told, such as of a node that does not answer.
    """
    if str(site).startswith("-"):
        raise UsageError(f"the site must come before {site}", f"Run: rdmaprov validate SITE {site}")
    if limit and hosts:
        raise UsageError("--limit and --hosts do not go together", "Give one of them.")
    from rdmaprov.cli import session
    from rdmaprov.interrupt import signals_interrupt
    from rdmaprov.report.write import told
    from rdmaprov.validate.results import lines
    from rdmaprov.validate.run import Request, run

    given = session.Passwords(vault_password_file, (), ())
    with signals_interrupt():
        fleet, mask = session.checked(site, limit, given)
        options = (*_VERBOSITY[verbosity()], *options)
        done = run(Request(site, limit, hosts, options, vault_password_file), fleet, mask)
    if json_file is not None:
        json_file.write(done.text)
    for line in lines(done.findings):
        click.echo(line)
    click.echo(f"everything is in {done.path}")
    click.echo(told(done.path))
    return done.code
