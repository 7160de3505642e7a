"""`rdmaprov init`: a new site from a few facts."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from rdmaprov.errors import UsageError


def _words(value: str) -> tuple[str, ...]:
    return tuple(word for word in value.replace(",", " ").split() if word)


@click.command("init", short_help="Write a new site.")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--kind",
    type=click.Choice(["roce", "infiniband"]),
    prompt="Fabric",
    help="What the rails are.",
)
@click.option(
    "--nodes",
    prompt="Nodes, such as gpu[01:16]",
    help="Host names and ranges, separated by commas.",
)
@click.option(
    "--rails",
    prompt="Rails, such as ens1,ens2",
    help="Network devices or PCI addresses, in order.",
)
@click.option("--gbps", type=int, prompt="Gb/s of a rail", help="Line rate of one rail.")
@click.option("--gpus", type=click.IntRange(0, 64), prompt="GPUs in a node", help="GPUs in a node.")
@click.option("--subnet", help="Rail i gets the i-th /24 of this network. None for no addresses.")
@click.option("--user", default="root", show_default=True, help="Whom to log in as.")
def init(
    directory: Path,
    kind: str,
    nodes: str,
    rails: str,
    gbps: int,
    gpus: int,
    subnet: str | None,
    user: str,
) -> None:
    """Write a commented site into DIRECTORY; ask for what no option says.

    The site passes `rdmaprov check`. Nothing is written over.
    """
    from rdmaprov import contract
    from rdmaprov.inventory import load_site, schema, starter

    rates = schema.shipped().variables["fabric_link_gbps"].choices
    if gbps not in rates:
        raise UsageError(f"no rail has {gbps} Gb/s", f"Name one of {', '.join(map(str, rates))}")
    if subnet is None:
        subnet = ""
        if kind == "roce" and sys.stdin.isatty():
            subnet = click.prompt("Network of the rails", default="198.18.0.0/15")
    facts = starter.Facts(kind, _words(nodes), _words(rails), gbps, gpus, subnet, user)
    existed = directory.exists()
    written = starter.write(directory, facts)
    problems = contract.problems(load_site(directory))
    if problems:
        for path in written:
            path.unlink()
        if not existed:
            shutil.rmtree(directory)
        first = problems[0]
        raise UsageError(f"{first.variable}: {first.message}", f"To repair it, {first.remedy}")
    for path in written:
        click.echo(f"wrote {path}")
    click.echo(f"next: rdmaprov check {directory}")
