"""`rdmaprov certificate`: verify the certificate of an acceptance."""

from __future__ import annotations

import click

from rdmaprov.cli.lazy import LazyGroup

COMMANDS = {
    "verify": "rdmaprov.cli.certificate_verify:verify",
    "check": "rdmaprov.cli.certificate_check:check",
}


@click.group(
    cls=LazyGroup, table=COMMANDS, short_help="Verify the certificate of an accepted fleet."
)
def certificate() -> None:
    """Verify the certificate that rdmaprov accept writes when a fleet passes."""
