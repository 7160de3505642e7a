"""`rdmaprov compile`: bundles for nodes that apply by themselves."""

from pathlib import Path
from typing import Unpack

import click

from rdmaprov.cli import options
from rdmaprov.cli.verbosity import verbosity_options
from rdmaprov.exit_codes import ExitCode


@click.command(
    short_help="Write a signed bundle for each node to apply by itself.",
    epilog="Exit codes: 0 all bundles were written, 1 only a run of Ansible knows a value, or a"
    " ring failed, 2 KEY cannot sign or DIR cannot be written, 3 the site is invalid, 4 a ring has"
    " no proof yet, so that later ones keep their bundles.",
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
@click.option(
    "--states",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Stop behind a ring (fabric_pull_ring) that its nodes' states, NODE.state in this"
    " directory, do not prove. With --limit, no node waits.",
)
@click.option(
    "--back",
    "is_back",
    is_flag=True,
    help="Give nodes with the newest state of SITE their bundle before again, with a new number.",
)
@options.limit_option
@options.roles_option
@options.vault_options
@verbosity_options
def compile(  # noqa: A001 - the verb
    site: Path,
    directory: Path,
    key: Path,
    states: Path | None,
    is_back: bool,
    limit: str | None,
    roles: str,
    **vault: Unpack[options.VaultOptions],
) -> int:
    """Write what each node of SITE needs to apply it without a controller; connect to no node.

    A bundle has the roles' code and their arguments on that node, secrets included, and is for that
    node alone. Nodes apply it with rdmaprov-node, if it is signed by a key that they hold.
    """
    from rdmaprov.certificate.ssh_signature import NotSigned, require_key, sign
    from rdmaprov.certificate.states import Proof, judge_states
    from rdmaprov.cli import session
    from rdmaprov.drift import bundle
    from rdmaprov.errors import UsageError
    from rdmaprov.node.bundle import NAMESPACE
    from rdmaprov.runs.last_word import FAILED, PASSED
    from rdmaprov.words import quantity, some

    def signature(data: bytes) -> bytes:
        try:
            return sign(data, key, NAMESPACE)
        except NotSigned as error:
            raise UsageError(f"{key}: cannot sign: {error}", "Run: ssh-add KEY") from error

    if limit:
        options.exclude("limit", states=states)
    named = session.known_roles(roles)
    require_key(key)
    if is_back:
        went = quantity(bundle.back(directory, signature), "node")
        click.echo(f"{directory}: {went} went back to the bundle before")
        return ExitCode.OK
    with session.prepare(site, limit, None, {**vault, "ask_become_pass": False}) as ready:
        found = bundle.contents(ready.fleet, named)
        rings = [list(found)] if limit else bundle.rings(ready.fleet)
        proofs: dict[str, Proof] = {}
        if len(rings) > 1:
            if states is None:
                why = "the site has rings (fabric_pull_ring), and nothing says which are proven"
                raise UsageError(why, "Pass --states DIR, or name nodes by --limit.")
            judged = judge_states(ready.fleet, states, options.STATE_AGE_H)
            proofs = {each.node: each for each in judged}
        wrote, new, waits_for = bundle.write_by_ring(
            found,
            rings,
            lambda name: name in proofs and proofs[name].state == PASSED,
            directory,
            signature,
        )
    click.echo(f"{directory}: {quantity(wrote, 'bundle')}, {new} new or changed")
    if not waits_for:
        return ExitCode.OK
    wrong = [proofs[name] for name in waits_for]
    why = some([f"{each.node}: {each.text}" for each in wrong], 3)
    click.echo(f"{quantity(len(found) - wrote, 'node')} of later rings wait for {why}", err=True)
    return ExitCode.FAILED if any(each.state == FAILED for each in wrong) else ExitCode.UNKNOWN
