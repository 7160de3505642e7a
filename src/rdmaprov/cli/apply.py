"""`rdmaprov apply`: nodes are made what the site says."""

from __future__ import annotations

from typing import Any

import click

from rdmaprov.cli.options import (
    json_option,
    limit_option,
    password_options,
    roles_option,
    site_argument,
)
from rdmaprov.cli.verbosity import verbosity_options


@click.command(short_help="Make nodes what the site says.")
@site_argument
@limit_option
@roles_option
@click.option("--serial", metavar="N|N%", help="Work on so many nodes at a time; all by default.")
@click.option(
    "--max-failures",
    metavar="N|N%",
    help="Begin no more nodes when more than so many of a batch failed.",
)
@click.option(
    "--reboot",
    type=click.Choice(["never", "if-needed"]),
    help="Whether to reboot for settings that need it; the site's reboot_policy by default.",
)
@click.option(
    "--drifted",
    is_flag=True,
    help="Probe all nodes first, and run only on those not proven to be as described.",
)
@click.option("--ask", is_flag=True, help="Show the plan and wait for a yes.")
@json_option
@password_options
@verbosity_options
def apply(**given: Any) -> int:  # noqa: ANN401 - apply_run.converge has their types
    """Make a site's nodes what it says, and read them again to be sure.

    A node that is as described costs one look, and with --drifted one without Ansible; an
    interrupted run is gone on with by the next.
    Everything is kept under runs/, without secrets. Exits with 1 if a node failed, 4 if one
    could not be reached, 5 if a reboot is due.
    """
    from rdmaprov.cli.apply_run import converge

    return converge(**given)
