"""`rdmaprov explain`: verdicts for people who have a log or a number, and no site."""

from __future__ import annotations

import click

from rdmaprov.cli.lazy import LazyGroup

COMMANDS = {
    "floor": "rdmaprov.cli.explain_floor:floor",
}


@click.group(
    cls=LazyGroup, table=COMMANDS, short_help="Say what a log or a number proves; needs no site."
)
def explain() -> None:
    """Say what a log or a number proves, without a site."""
