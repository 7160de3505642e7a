"""`rdmaprov subnet`: judge the InfiniBand subnet of a site."""

from pathlib import Path
from typing import Any

import click

from rdmaprov.cli import options
from rdmaprov.cli.publish import runs_option
from rdmaprov.cli.verbosity import verbosity_options


@click.command(
    short_help="Judge the InfiniBand subnet of a site.",
    epilog="Exit codes: 0 healthy and as SITE says, 1 something is wrong, 2 wrong usage,"
    " 3 the site is invalid, 4 nothing is wrong, but something is not verified.",
)
@options.site_argument
@options.limit_option
@click.option(
    "--from",
    "sources",
    metavar="NODE[,NODE...]",
    default="",
    callback=options.refuse_empty,
    help="Read from the first of these nodes that can read the fabric.  [default: the first three"
    " of SITE]",
)
@click.option("--here", is_flag=True, help="Read from this machine, which must be in the subnet.")
@click.option(
    "--device",
    "devices",
    metavar="NAME[,NAME...]",
    default="",
    callback=options.refuse_empty,
    help="Read through these RDMA devices, one on each subnet.  [default: the first active port]",
)
@click.option(
    "--interval",
    "interval_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0, max=86400),
    default=0,
    help="Read the counters twice, and judge what they grew in between.  [default: once]",
)
@click.option(
    "--save",
    type=click.Path(path_type=Path),
    help="Keep what the tools print in this new directory, for: rdmaprov explain subnet",
)
@options.json_option
@runs_option
@options.password_options
@verbosity_options
def subnet(**given: Any) -> int:  # noqa: ANN401 - subnet_run.judge_subnet has their types
    """Judge the InfiniBand subnet of SITE: rails against SITE, links, errors, routes.

    Reads the whole fabric once from one host with infiniband-diags, as root; changes nothing.
    With fabric_sharp: wanted, sharp_hello runs a SHARP job for a moment. Results go to runs/.
    """
    from rdmaprov.cli.subnet_run import judge_subnet

    return judge_subnet(**given)
