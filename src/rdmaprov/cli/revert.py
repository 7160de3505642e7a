"""`rdmaprov revert`: take back what a run of apply wrote."""

from typing import Any

import click

from rdmaprov.cli import options
from rdmaprov.cli.complete import complete_run
from rdmaprov.cli.publish import publish_options
from rdmaprov.cli.verbosity import verbosity_options


@click.command(
    short_help="Take back what a run of apply wrote.",
    epilog="Exit codes: 0 done, 1 a node failed or a file was changed since, 3 the site is invalid,"
    " 4 a node is unreachable, or nothing tells whether the run changed it, or another run holds"
    " SITE, 5 reboot required; with --plan: something to take back.",
)
@options.site_argument
@click.argument("run", shell_complete=complete_run)
@options.limit_option
@options.roles_option
@click.option("--plan", "only_shows", is_flag=True, help="Only show what would be taken back.")
@options.change_options
@options.json_option
@publish_options
@options.password_options
@verbosity_options
def revert(**given: Any) -> int:  # noqa: ANN401 - revert_run.take_back has their types
    """Take back on the nodes of SITE what RUN wrote, role by role, the last one first.

    RUN is the name of a directory in runs/, or a path. Files that it replaced come back from the
    copies that each node keeps of its last changes, byte by byte with owner and mode; files that it
    created are removed; units start at boot as before. Daemons then read their files again, and the
    bootloader's configuration and the initramfs are created again. Running settings stay until a
    reboot.

    A node on which somebody changed such a file since is left alone and named. Packages, firmware
    and firmware settings stay, and are listed. To resume an interrupted run, run the same command
    again. On a terminal, it shows what it takes back, and asks once.
    """
    from rdmaprov.cli.revert_run import take_back

    return take_back(**given)
