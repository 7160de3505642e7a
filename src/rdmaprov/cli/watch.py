"""`rdmaprov watch`: read the counters of all rails while a job runs, and name what is wrong."""

from pathlib import Path
from typing import IO, Unpack

import click

from rdmaprov.cli import options
from rdmaprov.cli.publish import runs_option
from rdmaprov.cli.verbosity import verbosity_options


@click.command(
    short_help="Watch the counters of all rails; name what is wrong.",
    epilog="Exit codes: 0 nothing is wrong, 1 something is, 3 the site is invalid, 4 a node is"
    " unreachable, counters are missing or there was no traffic.",
)
@options.site_argument
@options.limit_option
@click.option(
    "--for",
    "length",
    metavar="TIME",
    default="",
    help="Watch for this long, such as 10m.  [default: until Ctrl-C]",
)
@options.json_option
@runs_option
@options.password_options
@verbosity_options
def watch(
    site: Path,
    limit: str | None,
    length: str,
    json_file: IO[str] | None,
    **passwords: Unpack[options.PasswordOptions],
) -> int:
    """Read the counters of all rails of SITE each second, beside whatever runs; change nothing.

    Names congestion, rails that pause their switch, their victims, loss, uneven rails, lost links
    and symbol errors, as soon as they are seen and at the end. Ctrl-C ends the watch, and the exit
    code is that of what was seen.
    """
    from rdmaprov.cli.watch_run import watch_site

    return watch_site(site, limit, length, json_file, passwords)
