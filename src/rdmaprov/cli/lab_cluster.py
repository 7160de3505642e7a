"""The verbs of `rdmaprov lab` that make the cluster, show it and delete it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rdmaprov.cli.lab_shared import at_work, node_argument, say
from rdmaprov.cli.verbosity import verbosity_options
from rdmaprov.errors import UnreachableError
from rdmaprov.lab import model, patience, shapes, site, ssh
from rdmaprov.lab.accel import Accel
from rdmaprov.lab.faults import Fault
from rdmaprov.lab.image import Recipe
from rdmaprov.lab.model import Lab
from rdmaprov.lab.patience import Speed
from rdmaprov.lab.request import LabRequest
from rdmaprov.lab.virtual_machines import State
from rdmaprov.resources import data_dir

if TYPE_CHECKING:
    from rdmaprov.lab.cluster import Cluster


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
    table(made, [State.UP] * len(made.nodes))
    click.echo(f"site: {_short(made.site)}   shell: rdmaprov lab ssh {made.nodes[0].name}")


@click.command("shapes", short_help="List the shapes of nodes.")
def shapes_() -> None:
    """List the shapes that `rdmaprov lab up --shape NAME` makes nodes of."""
    for shape in shapes.catalogue().values():
        click.echo(f"{shape.name}: {shape.title}")


@click.command(short_help="Show the nodes and the saved states.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def status(cluster: Cluster, as_json: bool) -> None:
    """Show whether each node is up, booting, paused or down, and the saved states.

    Booting: the machine runs and ssh does not answer. Paused: a save or restore is running, or
    was interrupted; `rdmaprov lab up` resumes the node.
    """
    made = Lab.load(cluster.layout.state)
    states = cluster.states(made) if made is not None else []
    if as_json:
        click.echo(json.dumps(document(made, states, patience.read(cluster.layout.root)), indent=2))
    elif made is None:
        click.echo("There is no lab. Run: rdmaprov lab up")
    else:
        table(made, states)
        saved_states(made)


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
@click.pass_obj
def console(cluster: Cluster, node: str) -> None:
    """Print the output of NODE's serial console since it got its disk."""
    cluster.load().node(node)
    path = cluster.layout.node(node) / "console.log"
    if not path.exists():
        raise UnreachableError(f"{node} was never started", "Run: rdmaprov lab up")
    with path.open("rb") as log:
        shutil.copyfileobj(log, sys.stdout.buffer)


@click.command(short_help="Stop the nodes and delete the lab.")
@click.option("--purge", is_flag=True, help="Delete the built images too.")
@click.pass_obj
def down(cluster: Cluster, purge: bool) -> None:
    """Stop all nodes and delete the lab: disks, saved states, keys, logs. Built images stay."""
    with cluster.layout.lock():
        existed = cluster.down(purge=purge)
    say("the lab is deleted" if existed else "there is no lab")


LINE_WIDTH = 100
INDENT = "    "
_STYLE = {State.UP: "green", State.BOOTING: "yellow", State.PAUSED: "yellow", State.DOWN: "red"}


def table(lab: Lab, states: Sequence[State]) -> None:
    """Print the nodes, one line for each."""
    from rich.console import Console
    from rich.table import Table

    rows = Table(box=None, pad_edge=False)
    for heading in ("node", "state", "ssh", "rails (RDMA device: netdev)"):
        rows.add_column(heading, no_wrap=heading != "rails (RDMA device: netdev)")
    for node, state in zip(lab.nodes, states, strict=True):
        rails = "  ".join(f"{rail.rdma}: {rail.netdev or '?'}" for rail in node.rails)
        rows.add_row(
            node.name, f"[{_STYLE[state]}]{state}[/]", f"{ssh.ADDRESS} port {node.port}", rails
        )
    Console().print(rows)


def saved_states(lab: Lab) -> None:
    """Print the saved states, one line for each, with the time of this machine's zone."""
    for state in lab.saved:
        saved_at = datetime.fromisoformat(state.saved_at).astimezone()
        nodes = ", ".join(state.nodes)
        click.echo(f"saved state {state.name}: {nodes}, {saved_at:%Y-%m-%d %H:%M:%S}")


def document(lab: Lab | None, states: Sequence[State], speed: Speed | None) -> dict[str, object]:
    """Return what `lab status --json` prints; no nodes if there is no lab."""
    if lab is None:
        return {"nodes": [], "saved": []}
    kinds = shapes.of_nodes(lab.shape, len(lab.nodes))
    nodes = [
        {
            "name": node.name,
            "state": str(state),
            "address": ssh.ADDRESS,
            "port": node.port,
            "rails": [
                {
                    "rail": rail.number,
                    "rdma": rail.rdma,
                    "netdev": rail.netdev,
                    "mac": rail.mac,
                    "address": entry.get("address"),
                }
                for rail, entry in zip(node.rails, site.rails(shape, number, node), strict=True)
            ],
        }
        for number, (node, state, shape) in enumerate(
            zip(lab.nodes, states, kinds, strict=True), start=1
        )
    ]
    settings: dict[str, object] = {
        "suite": lab.suite,
        "accel": str(lab.accel),
        "memory_mib": lab.memory_mib,
        "shape": lab.shape,
        "patience": speed.patience if speed else 1.0,
        "speed": asdict(speed) if speed else None,
    }
    saved = [asdict(state) for state in lab.saved]
    return {**settings, "site": lab.site, "nodes": nodes, "saved": saved}


def faults(catalogue: Iterable[Fault]) -> None:
    """Print the catalogue: name, effect and its end, what the fault stands for."""
    for fault in catalogue:
        click.secho(fault.name, bold=True)
        for text in (f"{fault.title} (until {fault.until}).", fault.stands_for):
            click.echo(click.wrap_text(text, LINE_WIDTH, INDENT, INDENT))
