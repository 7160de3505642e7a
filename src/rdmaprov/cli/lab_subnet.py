"""The verbs of `rdmaprov lab subnet`: an InfiniBand subnet on ibsim."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rdmaprov.cli.lab_shared import say
from rdmaprov.cli.verbosity import meter
from rdmaprov.lab import ib_faults, ib_topology
from rdmaprov.lab.ib_subnet import ENGINES, LabSubnet
from rdmaprov.lab.ib_topology import Topology
from rdmaprov.lab.layout import Layout

if TYPE_CHECKING:
    from rdmaprov.lab.cluster import Cluster

_DEFAULTS = Topology()


@click.group(short_help="Run an InfiniBand subnet on ibsim, and break it.")
@click.pass_context
def subnet(context: click.Context) -> None:
    """Run an InfiniBand subnet on ibsim, with real opensm and infiniband-diags, without root.

    ibsim answers only management packets and carries no data. It is independent of the nodes of
    `rdmaprov lab up`.
    """
    cluster: Cluster = context.obj
    root = cluster.layout.root
    context.obj = LabSubnet(Layout(root.with_name(f"{root.name}-subnet"), cluster.layout.cache))


def _number(name: str, text: str) -> Callable[[Any], Any]:
    """Return the option for one of the fabric's numbers."""
    default, option = getattr(_DEFAULTS, name), f"--{name.replace('_', '-')}"
    return click.option(option, type=int, default=default, show_default=True, help=text)


@subnet.command(short_help="Make the fabric, start its manager.")
@_number("nodes", "Nodes.")
@_number("rails", "HCAs of each node.")
@_number("nodes_per_leaf", "Nodes that share a leaf of each rail.")
@_number("spines", "Spines.")
@_number("cables", "Cables from each leaf to each spine.")
@_number(
    "cores", "Cores above the spines, for three levels; each pod of nodes then has its own spines."
)
@click.option(
    "--planes",
    metavar="PLANES",
    type=int,
    default=_DEFAULTS.planes,
    show_default=True,
    help="Number of subnets; rail i is in subnet i modulo PLANES.",
)
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default=ENGINES[0],
    show_default=True,
    help="Routing engine of opensm.",
)
@click.option(
    "--fault",
    "faults",
    metavar="NAME[,NAME...]",
    help="Make the fabric with these faults; see: rdmaprov lab subnet faults",
)
@click.pass_obj
def up(lab: LabSubnet, /, engine: str, faults: str | None, **numbers: int) -> None:
    """Make a rail-optimised fat tree, start opensm, and wait until the subnet is up.

    Each leaf connects one rail. A subnet that is already up is rebuilt, with the faults of --fault
    alone.
    """
    topology = Topology(**numbers)
    topology.check()
    chosen = ib_faults.chosen(faults, topology)
    with lab.layout.lock(), meter("starting", 0):
        taken = lab.up(topology, engine, chosen)
    for each in chosen:
        say(f"fault: {each.title}")
    if taken not in (engine, "file"):
        say(f"opensm took {taken}: this fabric does not suit {engine}")
    net = ib_topology.make(topology)
    click.echo(
        f"{len(net.switches)} switches, {len(net.hcas)} HCAs; to judge it:"
        " rdmaprov lab subnet save DIRECTORY && rdmaprov explain subnet DIRECTORY"
    )


@subnet.command("faults", short_help="List the faults.")
def faults_() -> None:
    """List the faults that `rdmaprov lab subnet up --fault NAME` makes."""
    width = max(map(len, ib_faults.FAULTS))
    for name, fault in ib_faults.FAULTS.items():
        click.echo(f"{name:<{width}}  {fault.title}")


@subnet.command(short_help="Keep what the tools print of the subnet.")
@click.argument("directory", type=click.Path(path_type=Path))
@click.pass_obj
def save(lab: LabSubnet, directory: Path) -> None:
    """Write what infiniband-diags print of the subnet into DIRECTORY, for `explain subnet`."""
    from rdmaprov.subnet.collect import collect

    with meter("reading", 0):
        collect(directory, lab.run)


@subnet.command("site", short_help="Write the site of the subnet.")
@click.argument("directory", type=click.Path(path_type=Path))
@click.pass_obj
def site_(lab: LabSubnet, directory: Path) -> None:
    """Write the site of the subnet, as it is without faults, into DIRECTORY.

    To judge the subnet by it: rdmaprov lab subnet run -- rdmaprov subnet DIRECTORY --here
    """
    from rdmaprov.lab.ib_topology import write_site
    from rdmaprov.subnet.collect import require_new

    require_new(directory)
    write_site(directory, lab.topology())


@subnet.command("run", short_help="Run a tool on the first node.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_obj
def run_(lab: LabSubnet, command: Sequence[str]) -> int:
    """Run COMMAND (write it after `--`), and return its exit code.

    Tools of infiniband-diags in COMMAND use the first node's first rail; for another rail of it,
    give them -C DEVICE as their first option.
    """
    return lab.call(command)


@subnet.command(short_help="Stop the subnet and delete its files.")
@click.pass_obj
def down(lab: LabSubnet) -> None:
    """Stop ibsim and opensm, and delete the subnet's files."""
    with lab.layout.lock():
        existed = lab.down()
    say("the subnet is deleted" if existed else "there is no subnet")
