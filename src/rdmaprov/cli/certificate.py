"""`rdmaprov certificate`: judge a certificate by its file, by the nodes, or as one has it."""

from pathlib import Path
from typing import Unpack

import click

from rdmaprov.cli.options import PasswordOptions, password_options, site_argument
from rdmaprov.cli.verbosity import verbosity_options

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(short_help="Verify the certificate of an accepted fleet.")
def certificate() -> None:
    """Verify the certificate that rdmaprov accept writes when a fleet passes."""


@certificate.command(
    "verify",
    short_help="Verify a certificate without a connection.",
    epilog="Exit codes: 0 valid, 1 refused, 2 FILE is no certificate, 3 the site is invalid,"
    " 4 unknown: not signed, not countersigned by a node, or a node is unreachable.",
)
@click.argument("file", type=_FILE)
@click.option(
    "--allowed-signers",
    "allowed",
    metavar="FILE",
    type=_FILE,
    help="Accept signatures of the operators in this file (ssh-keygen(1), ALLOWED SIGNERS).",
)
@click.option(
    "--site",
    type=click.Path(path_type=Path),
    help="Also read SITE and connect to its nodes: name what was replaced or changed since.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@password_options
@verbosity_options
def verify(
    file: Path,
    allowed: Path | None,
    site: Path | None,
    as_json: bool,
    **passwords: Unpack[PasswordOptions],
) -> int:
    """Verify the certificate in FILE, and its signature in FILE.sig, without a connection.

    Computes every verdict again from the numbers and floors. Prints what is wrong, one line each.
    """
    from rdmaprov.cli.certificate_run import verify_file

    return verify_file(file, allowed, site, as_json, passwords)


@certificate.command(
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
