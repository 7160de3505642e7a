"""`rdmaprov accept`: nodes together move what their links can, or who does not is named."""

from __future__ import annotations

from typing import Any

import click

from rdmaprov.cli.options import json_option, limit_option, site_argument, vault_file_option
from rdmaprov.cli.verbosity import verbosity_options


@click.command(short_help="Prove the fabric by an all-reduce; say who is to blame.")
@site_argument
@limit_option
@click.option(
    "--backend",
    type=click.Choice(["auto", "nccl", "gloo"]),
    default="auto",
    show_default=True,
    help="What moves the data; auto is nccl where there are GPUs.",
)
@click.option(
    "--sizes",
    "size_range",
    metavar="MIN:MAX",
    default="",
    help="Sizes of messages, such as 1M:8G; by default all that fit.",
)
@click.option("--pairs", is_flag=True, help="Measure every pair of nodes.")
@click.option(
    "--isolate",
    type=click.Choice(["auto", "never"]),
    default="auto",
    show_default=True,
    help="Find the culprit by testing groups when a failed run does not name it.",
)
@click.option(
    "--timeout",
    metavar="S",
    type=click.FloatRange(min=10),
    help="Seconds that the run may take; each of its steps has a limit of its own.",
)
@click.option("--despite-state", is_flag=True, help="Measure nodes whose last validate failed.")
@json_option
@vault_file_option
@verbosity_options
def accept(**given: Any) -> int:  # noqa: ANN401 - accept_run.prove has their types
    """Run all-reduces over all nodes of a site; verify every value, time every size.

    First a census says what is missing, and each rail is tried. Everything is kept under runs/.
    Exits with 1 if something is wrong, with 4 if something could not be told.
    """
    from rdmaprov.cli.accept_run import prove

    return prove(**given)
