"""`rdmaprov discover`: real nodes, read into host variables."""

from __future__ import annotations

from pathlib import Path

import click

from rdmaprov.cli.check import limit_option, site_argument, vault_file_option
from rdmaprov.discover import merge, reach, variables
from rdmaprov.errors import UnreachableError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import SiteError, load_site


@click.command("discover", short_help="Read nodes into host variables.")
@site_argument
@limit_option
@click.option("--merge", "write", is_flag=True, help="Write into host_vars instead of printing.")
@vault_file_option
def discover(site: Path, limit: str | None, write: bool, vault_password_file: Path | None) -> int:
    """Read RDMA devices, GPUs and memory of the site's nodes over ssh.

    Prints the host variables that the site does not say already, or merges them into host_vars,
    which keeps comments and order. Exits with 4 if a node does not answer.
    """
    nodes = {node.name: node for node in load_site(site, limit, vault_password_file).nodes}
    if not nodes:
        raise SiteError(f"{site}: there are no nodes to read", f"See: rdmaprov check {site}")
    answers = reach.collect(site, limit, vault_password_file)
    for host, facts in sorted(answers.facts.items()):
        found = variables.news(variables.from_facts(facts, nodes.get(host)), nodes[host])
        if write:
            path = merge.into(site, host, found) if found else None
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
