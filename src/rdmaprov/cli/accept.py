"""`rdmaprov accept`: measure the fabric and name what is slow or broken."""

from pathlib import Path
from typing import Any

import click

from rdmaprov.acceptance import stage_report as gate_stages
from rdmaprov.cli import options
from rdmaprov.cli.publish import publish_options
from rdmaprov.cli.verbosity import verbosity_options


@click.command(
    short_help="Measure the fabric with all-reduces; name what is at fault.",
    epilog="Exit codes: 0 accepted, 1 refused, 3 the site is invalid, 4 a node is unreachable, a"
    " result is unknown or another run holds SITE.",
)
@options.site_argument
@options.limit_option
@options.idle_option
@click.option(
    "--backend",
    type=click.Choice(["auto", "nccl", "gloo"]),
    default="auto",
    show_default=True,
    help="Backend of torch.distributed; auto is nccl where nodes have GPUs.",
)
@options.sizes_option
@click.option("--pairs", is_flag=True, help="Measure every pair of nodes.")
@click.option("--cross-rail", is_flag=True, help="Test paths from each rail to the others, too.")
@click.option(
    "--isolate",
    type=click.Choice(["auto", "never"]),
    default="auto",
    show_default=True,
    help="If the run does not show what is at fault, test groups of nodes to find it.",
)
@options.launcher_option
@click.option(
    "--slurm-job",
    metavar="ID",
    help="Run in this Slurm job, which must hold the nodes; without it, accept requests an"
    " allocation.",
)
@click.option("--stages", metavar="LIST", default="", help=gate_stages.help_line())
@click.option(
    "--soak",
    metavar="TIME",
    default="",
    help="Run all nodes for this long at the end, such as 30m, with random data.",
)
@click.option(
    "--keep-going",
    type=click.Choice(["auto", "never"]),
    default="auto",
    show_default=True,
    help="If a stage finds nodes at fault, continue without them (auto), or stop there (never).",
)
@click.option(
    "--join",
    is_flag=True,
    help="Measure only what is between nodes that kept runs accepted, and what changed since.",
)
@click.option(
    "--resume",
    metavar="RUN",
    is_flag=False,
    flag_value="newest",
    help="Resume an interrupted run after its last completed stage; without RUN, the newest.",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=10),
    help="Time limit of each job; by default it grows with the number of ranks.",
)
@click.option(
    "--ignore-validate", is_flag=True, help="Measure nodes even if no complete validate has passed."
)
@click.option(
    "--sign",
    "key",
    metavar="KEY",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Sign the certificate of a fleet that passed with this SSH key."
    "  [default: fabric_certificate_key of SITE]",
)
@click.option(
    "--leave-certificate",
    "is_left",
    is_flag=True,
    help="Write to each node its part of the certificate, and a program that checks that part."
    "  [default: fabric_certificate_on_nodes of SITE]",
)
@options.wait_option("SITE")
@options.json_option
@publish_options
@options.password_options
@verbosity_options
def accept(**given: Any) -> int:  # noqa: ANN401 - accept_run.measure has their types
    """Run all-reduces in nodes, pairs, groups and all of SITE; verify values, compare bandwidths.

    Nodes that a stage finds at fault are left out of the later stages. Logs, results and, if the
    fleet passes, a certificate go to runs/, without secrets.
    """
    from rdmaprov.cli.accept_run import measure

    return measure(**given)
