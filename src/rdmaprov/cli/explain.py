"""`rdmaprov explain`: judge a log or a number, without a site."""

from __future__ import annotations

import click

from rdmaprov.cli.lazy import LazyGroup

COMMANDS = {
    "floor": "rdmaprov.cli.explain_floor:floor",
    "nccl-log": "rdmaprov.cli.explain_nccl_log:nccl_log",
}


@click.group(
    cls=LazyGroup, table=COMMANDS, short_help="Judge a log or a measurement, without a site."
)
def explain() -> None:
    """Judge NCCL logs or a bandwidth measurement, without a site."""
