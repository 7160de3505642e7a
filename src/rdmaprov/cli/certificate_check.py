"""`rdmaprov certificate check`: what the certificate that was left on a node says."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import click

from rdmaprov.cli.options import PasswordOptions, password_options, site_argument
from rdmaprov.cli.verbosity import verbosity_options


@click.command(
    "check",
    short_help="Check the certificate that accept left on a node.",
    epilog="Exit codes: 0 valid, 1 not valid, 3 the site is invalid, 4 unknown: there is none, or"
    " the node is unreachable.",
)
@site_argument
@click.argument("node")
@password_options
@verbosity_options
def check(site: Path, node: str, **passwords: Unpack[PasswordOptions]) -> int:
    """Check the certificate that accept --leave-certificate left on NODE of SITE.

    Prints one line: until when the node is valid, or what expired, was replaced or changed. On the
    node itself, /usr/local/lib/rdmaprov/certificate prints the same line at once.
    """
    from rdmaprov.cli.certificate_run import check_node

    return check_node(site, node, passwords)
