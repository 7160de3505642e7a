"""`rdmaprov history`: what the runs of a site say together."""

from pathlib import Path
from typing import IO

import click

from rdmaprov.cli.options import json_option, site_argument
from rdmaprov.cli.publish import publish_options


@click.command(
    short_help="Show how a site changed over its runs.",
    epilog="Exit codes: 0 no measurement has become worse for good, 1 one has, 2 wrong usage or"
    " SITE has no runs, 4 none has, but results of a run cannot be read.",
)
@site_argument
@json_option
@publish_options
def history(site: Path, json_file: IO[str] | None) -> int:
    """Show how SITE changed over all of its runs in runs/, without connecting to a node.

    Names measurements that changed, at once or gradually, by stage, node and rail, and what changed
    with them; versions, hardware and settings that changed; the first run of each check or finding.
    A change is named once five runs show it.
    """
    from rdmaprov.cli.history_run import show_history

    return show_history(site, json_file)
