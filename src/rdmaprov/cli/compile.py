"""`rdmaprov compile`: bundles for nodes that apply by themselves."""

from pathlib import Path
from typing import Unpack

import click

from rdmaprov.cli import options
from rdmaprov.cli.verbosity import verbosity_options
from rdmaprov.exit_codes import ExitCode


@click.command(
    short_help="Write a signed bundle for each node to apply by itself.",
    epilog="Exit codes: 0 all bundles were written, 1 only a run of Ansible knows a value, 2 KEY"
    " cannot sign or DIR cannot be written, 3 the site is invalid.",
)
@options.site_argument
@click.option(
    "--out",
    "directory",
    metavar="DIR",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Write NODE.bundle for each node, and the program rdmaprov-node, to this directory.",
)
@click.option(
    "--key",
    metavar="KEY",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Sign the bundles with this private ssh key.",
)
@options.limit_option
@options.roles_option
@options.vault_options
@verbosity_options
def compile(  # noqa: A001 - the verb
    site: Path,
    directory: Path,
    key: Path,
    limit: str | None,
    roles: str,
    **vault: Unpack[options.VaultOptions],
) -> int:
    """Write what each node of SITE needs to apply it without a controller; connect to no node.

    A bundle has the roles' code and their arguments on that node, secrets included, and is for that
    node alone. Nodes apply it with rdmaprov-node, if it is signed by a key that they hold.
    """
    from rdmaprov.certificate.ssh_signature import NotSigned, require_key, sign
    from rdmaprov.cli import session
    from rdmaprov.drift import bundle
    from rdmaprov.errors import UsageError
    from rdmaprov.node.bundle import NAMESPACE
    from rdmaprov.words import quantity

    named = session.known_roles(roles)
    with session.prepare(site, limit, None, {**vault, "ask_become_pass": False}) as ready:
        found = bundle.contents(ready.fleet, named)
        require_key(key)
        try:
            new = bundle.write(found, directory, lambda data: sign(data, key, NAMESPACE))
        except NotSigned as error:
            raise UsageError(f"{key}: cannot sign: {error}", "Run: ssh-add KEY") from error
    click.echo(f"{directory}: {quantity(len(found), 'bundle')}, {new} new or changed")
    return ExitCode.OK
