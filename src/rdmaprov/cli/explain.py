"""`rdmaprov explain`: judge a log, a number or a subnet, or size a fabric, without a site."""

from __future__ import annotations

import click

from rdmaprov.cli.lazy import LazyGroup

COMMANDS = {
    "floor": "rdmaprov.cli.explain_floor:floor",
    "nccl-log": "rdmaprov.cli.explain_nccl_log:nccl_log",
    "subnet": "rdmaprov.cli.explain_subnet:subnet",
    "sizing": "rdmaprov.cli.explain_sizing:sizing",
}


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    short_help="Judge a log, a measurement or a subnet; size a fabric.",
)
def explain() -> None:
    """Judge NCCL logs, a bandwidth measurement or an InfiniBand subnet; size a fabric.

    None of them needs a site.
    """
