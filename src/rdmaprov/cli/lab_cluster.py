"""The verbs of `rdmaprov lab` that make the cluster, show it and delete it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rdmaprov.cli.lab_shared import at_work, complete_shape, node_argument, say
from rdmaprov.cli.verbosity import verbosity_options
from rdmaprov.errors import UnreachableError
from rdmaprov.lab import model, patience, shapes
from rdmaprov.lab.accel import Accel
from rdmaprov.lab.image import Recipe
from rdmaprov.lab.model import Lab
from rdmaprov.lab.request import LabRequest
from rdmaprov.resources import data_dir

if TYPE_CHECKING:
    from rdmaprov.lab.cluster import Cluster

FOLLOW_POLL_S = 0.5


def _short(path: str) -> str:
    """Return the path as a user in the working directory would write it."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


@click.command(short_help="Build the images, boot the nodes.")
@click.option(
    "--nodes", type=int, help=f"Number of nodes, 2 to 8.  [default: {model.DEFAULT_NODES}]"
)
@click.option(
    "--rails", type=int, help=f"Rails of each node, 1 to 8.  [default: {model.DEFAULT_RAILS}]"
)
@click.option(
    "--accel",
    type=click.Choice(["auto", *(accel.value for accel in Accel)]),
    help="kvm, or tcg: emulation, slow, works everywhere.  [default: auto: kvm if it works]",
)
@click.option(
    "--suite",
    type=click.Choice(Recipe(data_dir("lab"), "").words("image", "suites")),
    help=f"Debian release of the nodes.  [default: {model.DEFAULT_SUITE}]",
)
@click.option(
    "--memory", type=int, help=f"Memory of each node in MiB.  [default: {model.DEFAULT_MEMORY_MIB}]"
)
@click.option(
    "--site",
    type=click.Path(path_type=Path, file_okay=False),
    help="Site to write hosts.yml into.  [default: inventory/lab]",
)
@click.option(
    "--shape",
    metavar="NAME[,NAME...]",
    shell_complete=complete_shape,
    help="Make nodes of another shape, such as bond, or of several in turn.",
)
@verbosity_options
@click.pass_obj
def up(
    cluster: Cluster,
    nodes: int | None,
    rails: int | None,
    accel: str | None,
    suite: str | None,
    memory: int | None,
    site: Path | None,
    shape: str | None,
) -> None:
    """Build the images once, boot the nodes and wait until each answers.

    Run it again to start nodes that are down; nothing else changes.
    """
    from rdmaprov.cli import lab_view
    from rdmaprov.lab.virtual_machines import State

    for option, value, allowed, unit in (
        ("--nodes", nodes, model.NODES_RANGE, ""),
        ("--rails", rails, model.RAILS_RANGE, ""),
        ("--memory", memory, model.MEMORY_RANGE_MIB, " (MiB)"),
    ):
        if value is not None:
            model.check_range(option, value, allowed, unit)
    chosen = None if accel in (None, "auto") else Accel(accel)
    there = Lab.load(cluster.layout.state)
    count = len(there.nodes) if there is not None else nodes or model.DEFAULT_NODES
    shapes.of_nodes(shape, count)
    with at_work(cluster, "starting", count) as working:
        made = working.up(LabRequest(nodes, rails, suite, memory, chosen, site, shape))
    lab_view.table(made, [State.UP] * len(made.nodes))
    click.echo(f"site: {_short(made.site)}   shell: rdmaprov lab ssh {made.nodes[0].name}")


@click.command("shapes", short_help="List the shapes of nodes.")
def shapes_() -> None:
    """List the shapes that `rdmaprov lab up --shape NAME` makes nodes of."""
    from rdmaprov.cli import lab_view

    lab_view.shape_list(shapes.catalogue().values())


@click.command(short_help="Show the nodes and the saved states.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def status(cluster: Cluster, as_json: bool) -> None:
    """Show whether each node is up, booting, paused or down, and the saved states.

    Booting: the machine runs and ssh does not answer. Paused: a save or restore is running, or
    was interrupted; `rdmaprov lab up` resumes the node.
    """
    from rdmaprov.cli import lab_view

    made = Lab.load(cluster.layout.state)
    states = cluster.states(made) if made is not None else []
    if as_json:
        click.echo(
            json.dumps(
                lab_view.document(made, states, patience.read(cluster.layout.root)), indent=2
            )
        )
    elif made is None:
        click.echo("There is no lab. Run: rdmaprov lab up")
    else:
        lab_view.table(made, states)
        lab_view.saved_states(made)


@click.command("ssh", short_help="Open a shell on a node, or run a command there.")
@node_argument
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def ssh_(cluster: Cluster, node: str, command: Sequence[str]) -> None:
    """Open a shell on NODE, or run COMMAND there (write it after `--`).

    Input, output and the exit code pass through. Several arguments run as one command, as they
    are, without a shell's expansion; a single one is a line for the node's shell: 'ls | wc -l'.
    """
    from rdmaprov.lab import ssh

    cluster.require_running(node)
    words = list(command) if len(command) <= 1 else [shlex.join(command)]
    argv = ssh.command(cluster.layout, node, words)
    sys.stdout.flush()
    os.execv(argv[0], argv)  # noqa: S606 - ssh takes our place, so that all passes through


@click.command(short_help="Print the serial console of a node.")
@node_argument
@click.option("--follow", "-f", is_flag=True, help="Keep printing new output.")
@click.pass_obj
def console(cluster: Cluster, node: str, follow: bool) -> None:
    """Print the output of NODE's serial console since it got its disk."""
    cluster.load().node(node)
    path = cluster.layout.node(node) / "console.log"
    if not path.exists():
        raise UnreachableError(f"{node} was never started", "Run: rdmaprov lab up")
    with path.open("rb") as log:
        while True:
            shutil.copyfileobj(log, sys.stdout.buffer)
            sys.stdout.flush()
            if not follow:
                return
            time.sleep(FOLLOW_POLL_S)


@click.command(short_help="Stop the nodes and delete the lab.")
@click.option("--purge", is_flag=True, help="Delete the built images too.")
@click.pass_obj
def down(cluster: Cluster, purge: bool) -> None:
    """Stop all nodes and delete the lab: disks, saved states, keys, logs. Built images stay."""
    with cluster.layout.lock():
        existed = cluster.down(purge=purge)
    say("the lab is deleted" if existed else "there is no lab")
