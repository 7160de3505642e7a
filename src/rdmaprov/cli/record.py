"""`rdmaprov record`: write all that is read of a node into one file."""

from pathlib import Path
from typing import Unpack

import click

from rdmaprov.cli.complete import complete_limit
from rdmaprov.cli.options import PasswordOptions, password_options, refuse_empty, site_argument
from rdmaprov.cli.verbosity import verbosity_options


@click.command(
    short_help="Write all that is read of a node into one file.",
    epilog="Exit codes: 0 the record was written, 3 the site is invalid, 4 the node is"
    " unreachable.",
)
@site_argument
@click.option(
    "-l",
    "--limit",
    metavar="NODE",
    required=True,
    callback=refuse_empty,
    shell_complete=complete_limit,
    help="Record this node.",
)
@click.option(
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to this file; one that ends with .json is not compressed."
    "  [default: NODE.record.json.gz]",
)
@click.option(
    "--anonymous", is_flag=True, help="Replace host names, addresses, GUIDs and serial numbers."
)
@password_options
@verbosity_options
def record(
    site: Path,
    limit: str,
    output: Path | None,
    anonymous: bool,
    **passwords: Unpack[PasswordOptions],
) -> int:
    """Write all that plan and validate read of a node of SITE into one file; change nothing.

    The file has no passwords, keys or tokens. `rdmaprov plan --record FILE` and `rdmaprov validate
    --record FILE` judge the node later, elsewhere and without a connection.
    """
    from rdmaprov.cli.record_run import record_node

    return record_node(site, limit, output, anonymous, passwords)
