"""`rdmaprov lab`: the virtual RDMA cluster."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from rdmaprov.cli.verbosity import meter, verbosity, verbosity_options
from rdmaprov.errors import RdmaprovError, UnreachableError
from rdmaprov.lab import layout, model
from rdmaprov.lab.accel import Accel
from rdmaprov.lab.image import Recipe
from rdmaprov.lab.layout import Layout
from rdmaprov.lab.model import Lab
from rdmaprov.resources import data_dir
from rdmaprov.verbosity import Verbosity

if TYPE_CHECKING:
    from rdmaprov.lab.cluster import Cluster

FOLLOW_POLL_S = 0.5


def _say(text: str) -> None:
    if verbosity() is not Verbosity.QUIET:
        click.echo(text, err=True)


@contextmanager
def _at_work(cluster: Cluster, what: str, nodes: int) -> Iterator[Cluster]:
    """Provide the cluster, locked; what it does moves on the terminal below what it says."""
    with cluster.layout.locked(), meter(what, nodes) as moving:

        def say(text: str) -> None:
            if moving.console is None:
                cluster.say(text)
            else:
                moving.console.print(text, soft_wrap=True, markup=False)

        yield dataclasses.replace(cluster, say=say, answered=moving.advance)


def _short(path: str) -> str:
    """Return the path as a user in the working directory would write it."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def _complete_node(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    group = context.parent
    root = group.params.get("directory") if group is not None else None
    try:
        lab = Lab.load((root or layout.default_root()) / "lab.json")
    except RdmaprovError:
        lab = None
    names = [node.name for node in lab.nodes] if lab is not None else []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _complete_fault(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from rdmaprov.lab import faults

    return [
        CompletionItem(fault.name, help=fault.title)
        for fault in faults.catalogue().values()
        if fault.name.startswith(incomplete)
    ]


node_argument = click.argument("node", shell_complete=_complete_node)


@click.group(short_help="Make and break a virtual RDMA cluster.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    envvar="RDMAPROV_LAB_DIR",
    help="Where the lab keeps its disks and keys.  [default: ~/.local/state/rdmaprov/lab]",
)
@verbosity_options
@click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    envvar="RDMAPROV_CACHE_DIR",
    help="Where built images are kept.  [default: ~/.cache/rdmaprov/lab]",
)
@click.pass_context
def lab(context: click.Context, directory: Path | None, cache: Path | None) -> None:
    """Make and break a cluster of virtual machines with real RDMA (Soft-RoCE).

    Its nodes start as a factory-new server does: nothing that rdmaprov configures is
    configured. `rdmaprov lab up` writes how to reach them into the site inventory/lab.
    """
    from rdmaprov.lab.cluster import Cluster

    places = Layout(directory or layout.default_root(), cache or layout.default_cache())
    context.obj = Cluster(places, _say)


@lab.command(short_help="Build what is missing and boot the nodes.")
@click.option("--nodes", type=int, help=f"2 to 8.  [default: {model.DEFAULT_NODES}]")
@click.option("--rails", type=int, help=f"Rails of each node.  [default: {model.DEFAULT_RAILS}]")
@click.option(
    "--accel",
    type=click.Choice(["auto", *(accel.value for accel in Accel)]),
    help="kvm, or tcg: slow, and runs everywhere.  [default: auto, what works here]",
)
@click.option(
    "--suite",
    type=click.Choice(Recipe(data_dir("lab"), "").words("image", "suites")),
    help=f"Debian release of the nodes.  [default: {model.DEFAULT_SUITE}]",
)
@click.option(
    "--memory", type=int, help=f"MiB of each node.  [default: {model.DEFAULT_MEMORY_MIB}]"
)
@click.option(
    "--site",
    type=click.Path(path_type=Path, file_okay=False),
    help="Site that gets the nodes' hosts.yml.  [default: inventory/lab]",
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
) -> None:
    """Make the cluster: build the images once, boot the nodes, wait until each answers.

    Run again, it starts what does not run and changes nothing else.
    """
    from rdmaprov.cli import lab_view
    from rdmaprov.lab.cluster import Request
    from rdmaprov.lab.machines import State

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
    with _at_work(cluster, "starting", count) as working:
        made = working.up(Request(nodes, rails, suite, memory, chosen, site))
    lab_view.table(made, [State.UP] * len(made.nodes))
    click.echo(f"site: {_short(made.site)}   shell: rdmaprov lab ssh {made.nodes[0].name}")


@lab.command(short_help="Show the nodes and how they are.")
@click.option("--json", "as_json", is_flag=True, help="For a program to read.")
@click.pass_obj
def status(cluster: Cluster, as_json: bool) -> None:
    """Show the nodes: up, booting (its machine runs, ssh does not answer) or down."""
    from rdmaprov.cli import lab_view

    made = Lab.load(cluster.layout.state)
    states = cluster.states(made) if made is not None else []
    if as_json:
        click.echo(json.dumps(lab_view.document(made, states), indent=2))
    elif made is None:
        click.echo("There is no lab. Run: rdmaprov lab up")
    else:
        lab_view.table(made, states)


@lab.command("ssh", short_help="Open a shell on a node, or run a command there.")
@node_argument
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def ssh_(cluster: Cluster, node: str, command: Sequence[str]) -> None:
    """Open a shell on NODE, or run COMMAND there: write it after `--`.

    Standard input, output and the exit code pass through. Several words reach the node
    as they are; a single one is a line for the node's shell ('ls | wc -l').
    """
    from rdmaprov.lab import ssh

    cluster.require_running(node)
    words = list(command) if len(command) <= 1 else [shlex.join(command)]
    argv = ssh.command(cluster.layout, node, words)
    sys.stdout.flush()
    os.execv(argv[0], argv)  # noqa: S606 - ssh takes our place, so that all passes through


@lab.command(short_help="Show what a node wrote to its serial console.")
@node_argument
@click.option("--follow", "-f", is_flag=True, help="Go on as more is written.")
@click.pass_obj
def console(cluster: Cluster, node: str, follow: bool) -> None:
    """Show what NODE wrote to its serial console since its disk is new."""
    cluster.load().node(node)
    path = cluster.layout.node(node) / "console.log"
    if not path.exists():
        raise UnreachableError(f"{node} never started", "Run: rdmaprov lab up")
    with path.open("rb") as log:
        while True:
            shutil.copyfileobj(log, sys.stdout.buffer)
            sys.stdout.flush()
            if not follow:
                return
            time.sleep(FOLLOW_POLL_S)


@lab.command(short_help="Restart a node and wait for it.")
@node_argument
@click.pass_obj
def reboot(cluster: Cluster, node: str) -> None:
    """Restart NODE through its own boot loader and wait until it answers again."""
    with _at_work(cluster, f"restarting {node}", 0) as working:
        working.reboot(node)


@lab.command(short_help="Give nodes factory-new disks.")
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True, shell_complete=_complete_node)
@click.pass_obj
def reset(cluster: Cluster, nodes: Sequence[str]) -> None:
    """Put nodes back to the factory state: a new disk; host key and addresses stay."""
    with _at_work(cluster, "new disks", len(set(nodes))) as working:
        working.reset(nodes)


@lab.command(short_help="Put another machine in a node's place.")
@node_argument
@click.pass_obj
def replace(cluster: Cluster, node: str) -> None:
    """Swap NODE's server: the same name, a new disk, a new host key, new MAC addresses."""
    with _at_work(cluster, f"another {node}", 0) as working:
        working.replace(node)


@lab.command(short_help="End the lab and remove it.")
@click.option("--purge", is_flag=True, help="Remove the built images too.")
@click.pass_obj
def down(cluster: Cluster, purge: bool) -> None:
    """End the lab: every machine and every file of it. Built images stay, unless purged."""
    with cluster.layout.locked():
        existed = cluster.down(purge=purge)
    _say("the lab is gone" if existed else "there is no lab")


@lab.command(short_help="Break something on a node, as real fleets do.")
@click.argument("node", required=False, shell_complete=_complete_node)
@click.argument("name", required=False, shell_complete=_complete_fault)
@click.option("--rail", type=int, default=0, show_default=True, help="Rail of a rail's fault.")
@click.option("--list", "as_list", is_flag=True, help="Show every fault and what it stands for.")
@click.pass_obj
def fault(
    cluster: Cluster,
    node: str | None,
    name: str | None,
    rail: int,
    as_list: bool,
) -> None:
    """Put the fault NAME on NODE. `rdmaprov lab heal NODE` takes it back."""
    from rdmaprov.cli import lab_view
    from rdmaprov.lab import faults

    if as_list:
        lab_view.faults(faults.catalogue().values())
        return
    if node is None or name is None:
        raise click.UsageError("name a node and a fault", ctx=click.get_current_context())
    chosen = faults.find(name)
    target = cluster.require_running(node)
    number = model.find_rail(target, rail).number
    with cluster.layout.locked():
        faults.inject(chosen, target, cluster.layout.node(node), number)
    _say(f"{node}: {chosen.title}")


@lab.command(short_help="Take back every fault of a node.")
@node_argument
@click.pass_obj
def heal(cluster: Cluster, node: str) -> None:
    """Take back every fault that was put on NODE: what stood there before stands there again.

    A fault that was repaired in the meantime is left alone.
    """
    from rdmaprov.lab import faults

    target = cluster.require_running(node)
    with cluster.layout.locked():
        healed = faults.heal(target, cluster.layout.node(node))
    names = ", ".join(str(fault) for fault in healed)
    _say(f"{node}: healed {names}" if healed else f"{node}: nothing to heal")
