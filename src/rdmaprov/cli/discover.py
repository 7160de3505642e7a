"""`rdmaprov discover`: read nodes into host variables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from rdmaprov.cli.check import show_waived
from rdmaprov.cli.options import PasswordOptions, limit_option, password_options, site_argument
from rdmaprov.cli.verbosity import meter, verbosity, verbosity_options
from rdmaprov.errors import UnreachableError, UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.problem import printable
from rdmaprov.surroundings import ansible_command
from rdmaprov.verbosity import Verbosity
from rdmaprov.words import quantity

if TYPE_CHECKING:
    from rdmaprov.cli.passwords import Passwords
    from rdmaprov.discover import reach
    from rdmaprov.inventory import Fleet
    from rdmaprov.runs.masks import Mask


@click.command(
    "discover",
    short_help="Read nodes into host variables.",
    epilog="Exit codes: 0 all nodes were read, 3 the site is invalid, 4 a node is unreachable,"
    " has no device that can be a rail, or one of a kind that is not supported.",
)
@site_argument
@limit_option
@click.option("--merge", "write", is_flag=True, help="Write to host_vars instead of printing.")
@click.option(
    "--replace", is_flag=True, help="With --merge, overwrite values that differ from the node's."
)
@password_options
@verbosity_options
def discover(
    site: Path, limit: str | None, write: bool, replace: bool, **passwords: Unpack[PasswordOptions]
) -> int:
    """Read the RDMA devices, GPUs and memory of the nodes of SITE over ssh.

    Prints the host variables that the site does not set yet. With --merge, writes them to
    host_vars and keeps comments and order. Where a node differs from what the site sets, shows
    both and keeps the site's value, unless you pass --replace. Where an LLDP daemon runs, shows the
    switch port of each rail but does not write it, because leaf and switch_port say where a cable
    must be.
    """
    from rdmaprov import contract
    from rdmaprov.discover import variables
    from rdmaprov.runs.files import not_written
    from rdmaprov.runs.groups import group_alike, label
    from rdmaprov.runs.masks import Mask

    if replace and not write:
        raise UsageError("--replace changes what --merge writes", "Pass --merge too.")
    fleet, answers = _read(site, limit, passwords)
    nodes = {node.name: node for node in fleet.nodes}
    mask = Mask(fleet.secrets())
    show_waived(contract.judge(fleet)[1], mask)
    missed: dict[Path, OSError] = {}
    for host, facts in sorted(answers.facts.items()):
        known = variables.host_variables(facts, nodes[host])
        found, different = variables.compare(known, nodes[host])
        for remark in variables.remarks(facts, nodes[host]):
            click.echo(f"{host}: {printable(remark)}", err=True)
        if replace:
            found |= {each.name: each.seen for each in different}
        for each in different:
            done = "replaced" if replace else "kept; --merge --replace writes what the node has"
            click.echo(f"{host}: {printable(mask.text(each.text))}: {done}", err=True)
        if write:
            try:
                path = variables.merge_host_vars(site, host, found) if found else None
            except OSError as error:
                missed[Path(error.filename or site)] = error
                continue
            if verbosity() is not Verbosity.QUIET:
                click.echo(f"wrote {path}" if path else f"{host}: nothing new")
        else:
            click.echo(f"# host_vars/{host}.yml")
            click.echo(variables.format_yaml(found) if found else "# nothing new")
    if missed:
        raise not_written(missed, "run the same command again.")
    silent = sorted(nodes.keys() - answers.facts.keys())
    if silent:
        reasons = {name: answers.failures.get(name, "no answer") for name in silent}
        if len(silent) > 1:
            for reason, names in group_alike(reasons).items():
                click.echo(f"{label(names, len(nodes))}: {reason}", err=True)
        raise UnreachableError(
            f"could not read {len(silent)} of {quantity(len(nodes), 'node')}; "
            f"e.g. {silent[0]}: {reasons[silent[0]]}",
            f"Try: {ansible_command('ansible', '-i', site, silent[0], '-m', 'ping')}",
        )
    found_all = all(not variables.is_unknown(f, nodes[host]) for host, f in answers.facts.items())
    return ExitCode.OK if found_all else ExitCode.UNKNOWN


def _read(
    site: Path, limit: str | None, passwords: PasswordOptions
) -> tuple[Fleet, reach.NodeFacts]:
    """Return a site's fleet and its nodes' answers; show the progress."""
    from rdmaprov.cli.passwords import provide_passwords
    from rdmaprov.inventory import load_site
    from rdmaprov.inventory.errors import no_nodes
    from rdmaprov.runs.masks import Mask

    with provide_passwords(passwords) as given:
        with meter(f"reading {site}") as moving:
            fleet = load_site(site, limit, given.vault, moving.count)
        if not fleet.nodes:
            raise no_nodes(site)
        mask = Mask([*fleet.secrets(), *given.secrets])
        return fleet, _collect(fleet, given, mask)


def _collect(fleet: Fleet, given: Passwords, mask: Mask) -> reach.NodeFacts:
    """Return the nodes' answers, without secrets in what failed."""
    from rdmaprov.discover import reach
    from rdmaprov.probe.fleet import fleet_targets

    with meter("discover", len(fleet.nodes)) as moving:
        answers = reach.read_nodes(fleet_targets(fleet, given.become), moving.advance)
    failures = {name: mask.text(reason) for name, reason in answers.failures.items()}
    for each in answers.relays:
        click.echo(printable(mask.text(each.text)), err=True)
    return reach.NodeFacts(answers.facts, failures)
