"""`rdmaprov discover`: real nodes, read into host variables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rdmaprov.cli.options import limit_option, site_argument, vault_file_option
from rdmaprov.cli.verbosity import meter, verbosity, verbosity_options
from rdmaprov.errors import UnreachableError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.verbosity import Verbosity

if TYPE_CHECKING:
    from rdmaprov.discover import reach


@click.command("discover", short_help="Read nodes into host variables.")
@site_argument
@limit_option
@click.option("--merge", "write", is_flag=True, help="Write into host_vars instead of printing.")
@vault_file_option
@verbosity_options
def discover(site: Path, limit: str | None, write: bool, vault_password_file: Path | None) -> int:
    """Read RDMA devices, GPUs and memory of the site's nodes over ssh.

    Prints the host variables that the site does not say already, or merges them into host_vars,
    which keeps comments and order. Exits with 4 if a node does not answer.
    """
    from rdmaprov.discover import merge, variables
    from rdmaprov.inventory import SiteError, load_site

    with meter(f"reading {site}") as moving:
        fleet = load_site(site, limit, vault_password_file, moving.count)
    nodes = {node.name: node for node in fleet.nodes}
    if not nodes:
        raise SiteError(f"{site}: there are no nodes to read", f"See: rdmaprov check {site}")
    answers = _asked(site, limit, vault_password_file, len(nodes))
    for host, facts in sorted(answers.facts.items()):
        found = variables.news(variables.from_facts(facts, nodes.get(host)), nodes[host])
        if write:
            path = merge.into(site, host, found) if found else None
            if verbosity() is not Verbosity.QUIET:
                click.echo(f"wrote {path}" if path else f"{host}: nothing new")
        else:
            click.echo(f"# host_vars/{host}.yml")
            click.echo(merge.text(found) if found else "# nothing new")
    silent = sorted(nodes.keys() - answers.facts.keys())
    if silent:
        reason = answers.failures.get(silent[0], "no answer")
        raise UnreachableError(
            f"{len(silent)} of {len(nodes)} nodes could not be read, {silent[0]} first: {reason}",
            f"Try: ansible -i {site} {silent[0]} -m ping",
        )
    return ExitCode.OK


def _asked(site: Path, limit: str | None, vault: Path | None, count: int) -> reach.Answers:
    """Return what the nodes say; show how many have said it."""
    from rdmaprov.discover import reach

    with meter("discover", count) as moving:

        def hear(said: str, bad: bool) -> None:
            moving.advance(bad=bad)
            if verbosity() is Verbosity.VERBOSE:
                click.echo(said, err=True)

        return reach.collect(site, limit, vault, hear)
