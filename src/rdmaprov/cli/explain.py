"""`rdmaprov explain`: judge a log, a number, a subnet or switches, or size a fabric."""

from __future__ import annotations

import click

from rdmaprov.cli.lazy import LazyGroup

COMMANDS = {
    "floor": "rdmaprov.cli.explain_floor:floor",
    "nccl-log": "rdmaprov.cli.explain_nccl_log:nccl_log",
    "subnet": "rdmaprov.cli.explain_subnet:subnet",
    "switch": "rdmaprov.cli.explain_switch:switch",
    "sizing": "rdmaprov.cli.explain_sizing:sizing",
}


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    short_help="Judge a log, a measurement, a subnet or switches; size a fabric.",
)
def explain() -> None:
    """Judge NCCL logs, a measurement, an InfiniBand subnet or switches; size a fabric.

    None of them needs a site.
    """
