"""`rdmaprov replace`: return replaced nodes to service."""

from typing import Any

import click

from rdmaprov.cli.options import password_options, site_argument, sizes_option, wait_option
from rdmaprov.cli.publish import runs_option
from rdmaprov.cli.verbosity import verbosity_options


@click.command(
    short_help="Return replaced nodes to service.",
    epilog="Exit codes: 0 in service, 1 a step failed, 3 the site is invalid, 4 a node, the"
    " scheduler or a result is unknown, no witness is idle or another run holds SITE, 5 something"
    " is left for you to do.",
)
@site_argument
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
@click.option(
    "--host-key",
    "host_keys",
    multiple=True,
    metavar="[NODE=]SHA256:...|@FILE",
    help="Accept this host key, as ssh-keygen -lf prints it on the node's console; or those of"
    " FILE, a node and its key on each line.",
)
@click.option(
    "--yes", is_flag=True, help="Overwrite host variables that the new machine contradicts."
)
@click.option(
    "--witnesses",
    metavar="N|NODE[,NODE...]",
    default="",
    help="Idle nodes to measure with: how many, or which.  [default: 4, two of its own leaf]",
)
@click.option(
    "--reservation",
    metavar="NAME",
    default="",
    help="Measure with nodes of this Slurm reservation only, which keeps jobs off them.",
)
@sizes_option
@click.option(
    "--take-over",
    is_flag=True,
    help="Take over nodes that another user drained or another run left in progress; the old drain"
    " reason is kept inside the new one.",
)
@click.option(
    "--ticket",
    metavar="TEXT",
    default="",
    help="Number of the RMA or ticket, for the drain reason and the machine's record.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be done, and change nothing.")
@wait_option("SITE or a node")
@runs_option
@password_options
@verbosity_options
def replace(**given: Any) -> int:  # noqa: ANN401 - replace_run.return_nodes has their types
    """Return NODEs of SITE to service after their machines were replaced.

    Verifies the host key, compares the machine with the host variables, drains the node, applies
    and reboots, validates, measures it with idle nodes that are known good, and undrains it. Stops
    at the first step that fails and leaves the node drained with the reason; the same command
    resumes there.
    """
    from rdmaprov.cli.replace_run import return_nodes

    return return_nodes(**given)
