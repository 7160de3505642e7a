"""`rdmaprov explain switch`: judge what switches answered about their own configuration."""

from pathlib import Path
from typing import Any

import click

from rdmaprov.cli.options import limit_option, vault_options
from rdmaprov.switches.model import SwitchSystem

SYSTEMS = tuple(system.keyword for system in SwitchSystem)


@click.command("switch", short_help="Judge the QoS of switches, from saved output.")
@click.argument("paths", metavar="DIRECTORY|FILE...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--site",
    type=click.Path(path_type=Path),
    help="Judge by what this site says of its fabric.  [default: the usual settings of RoCE]",
)
@limit_option
@click.option("--json", "as_json", is_flag=True, help="Print verdicts and all facts as JSON.")
@click.option(
    "--commands",
    type=click.Choice(SYSTEMS),
    help="Print the commands whose output to save, and read nothing.",
)
@vault_options
def switch(**given: Any) -> int:  # noqa: ANN401 - explain_switch_run has their types
    """Judge PFC, ECN, DSCP maps, buffers and MTU of switches, from saved command output.

    Each DIRECTORY has the output of one switch, or a directory for each switch; each FILE is one
    switch. Reads SONiC's CONFIG_DB, Cumulus Linux' nv show and Arista's running configuration,
    whatever the files are called.

    Connects to nothing and changes nothing. Settings that no output shows are not verified.

    \b
    Exit codes:
      0  healthy
      1  something is wrong
      2  wrong usage
      3  the site is invalid
      4  nothing is wrong in what was read, but something was not verified
    """
    from rdmaprov.cli.explain_switch_run import explain_switch

    return explain_switch(**given)
