"""`rdmaprov compare`: what differs between two runs."""

from typing import IO

import click

from rdmaprov.cli.complete import complete_run
from rdmaprov.cli.options import json_option
from rdmaprov.cli.publish import runs_option


@click.command(
    short_help="Show what differs between two runs.",
    epilog="Exit codes: 0 nothing is worse in the second run, 1 something is, 2 there is no such"
    " run or they are of different verbs, 4 a run cannot be read, the runs share no node, or the"
    " verdict of the second one is unknown.",
)
@click.argument("first", metavar="RUN", shell_complete=complete_run)
@click.argument("second", metavar="RUN", shell_complete=complete_run)
@runs_option
@json_option
def compare(first: str, second: str, json_file: IO[str] | None) -> int:
    """Show what differs between two runs of one verb, down to a setting and a size.

    RUN is the name of a directory in runs/, or a path. Shows versions, hardware and settings, the
    states of nodes and stages, checks and findings that came or went, and measurements that differ
    by more than the usual noise between runs.
    """
    from rdmaprov.cli.history_run import show_comparison

    return show_comparison(first, second, json_file)
