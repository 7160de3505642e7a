"""`rdmaprov tune`: which settings of NCCL are better than those that the nodes have."""

from typing import Any

import click

from rdmaprov.cli import options
from rdmaprov.cli.publish import runs_option
from rdmaprov.cli.verbosity import verbosity_options


@click.command(
    short_help="Measure which NCCL settings beat the defaults.",
    epilog="Exit codes: 0 the answer is printed, 1 the nodes are not ready or give wrong values,"
    " 3 the site is invalid, 4 a node is unreachable, no job succeeded or another run holds SITE.",
)
@options.site_argument
@options.limit_option
@click.option(
    "--sizes",
    "size_range",
    metavar="MIN:MAX",
    default="",
    help="Message sizes, such as 1M:8G, each eight times the one before.  [default: 64 KiB and up]",
)
@options.launcher_option
@click.option("--slurm-job", metavar="ID", help="Run in this Slurm job, which must hold the nodes.")
@options.wait_option("SITE")
@options.json_option
@runs_option
@options.password_options
@verbosity_options
def tune(**given: Any) -> int:  # noqa: ANN401 - tune_run.measure has their types
    """Compare settings of NCCL with those that the nodes of SITE have, by size; change nothing.

    Runs some 100 jobs, each on all nodes, for hours on a large fleet; keep other jobs off these
    nodes. A gain is printed only if it is beyond the noise. Usually there is none: leave the
    defaults. Trials, results and a page go to runs/, without secrets.
    """
    from rdmaprov.cli.tune_run import measure

    return measure(**given)
