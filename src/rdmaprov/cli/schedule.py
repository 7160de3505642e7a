"""`rdmaprov schedule`: write the timers that validate and accept a site again and again."""

from pathlib import Path
from typing import Unpack

import click

from rdmaprov.cli.options import VaultOptions, site_argument, vault_options


@click.command(
    short_help="Write systemd timers that validate and accept SITE.",
    epilog="Exit codes: 0 written, 2 wrong usage or a unit exists with other content, 3 the site"
    " is invalid.",
)
@site_argument
@click.option(
    "--directory",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where to write the units, such as /etc/systemd/system.",
)
@click.option(
    "--validate",
    "validate_at",
    metavar="WHEN",
    default="hourly",
    show_default=True,
    help="When to validate, in the form of systemd's OnCalendar.",
)
@click.option(
    "--accept",
    "accept_at",
    metavar="WHEN",
    default="Sun 03:00",
    show_default=True,
    help="When to run accept on the idle nodes; empty: never.",
)
@click.option("--force", "is_forced", is_flag=True, help="Overwrite units that differ.")
@vault_options
def schedule(
    site: Path,
    directory: Path,
    validate_at: str,
    accept_at: str,
    is_forced: bool,
    **vault: Unpack[VaultOptions],
) -> int:
    """Write systemd services and timers that validate SITE and accept its idle nodes.

    They run as the current user in the current directory; results go to its runs/. Nothing is
    started: the commands for that are printed.
    """
    from rdmaprov.cli.schedule_run import write_units

    return write_units(site, directory, validate_at, accept_at, is_forced, **vault)
