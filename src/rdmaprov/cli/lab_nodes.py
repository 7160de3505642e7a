"""The verbs of `rdmaprov lab` that change nodes: boot, replace, save, restore, break and heal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from rdmaprov.cli.lab_shared import at_work, node_argument, say
from rdmaprov.lab import model

if TYPE_CHECKING:
    from rdmaprov.lab.cluster import Cluster


@click.command(short_help="Reboot a node and wait until it answers.")
@node_argument
@click.pass_obj
def reboot(cluster: Cluster, node: str) -> None:
    """Reboot NODE through its own boot loader and wait until it answers again."""
    with at_work(cluster, f"rebooting {node}", 0) as working:
        working.reboot(node)


@click.command(short_help="Give nodes factory-new disks.")
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True)
@click.pass_obj
def reset(cluster: Cluster, nodes: Sequence[str]) -> None:
    """Give nodes factory-new disks and boot them.

    Host keys and MAC addresses stay. The saved states of these nodes are deleted: they are in
    the old disks.
    """
    with at_work(cluster, "booting from new disks", len(set(nodes))) as working:
        working.reset(nodes)


@click.command(short_help="Replace a node: new disk, host key and MAC addresses.")
@node_argument
@click.pass_obj
def replace(cluster: Cluster, node: str) -> None:
    """Replace NODE: it keeps its name, and gets a new disk, host key and MAC addresses.

    The saved states of NODE are deleted.
    """
    with at_work(cluster, f"replacing {node}", 0) as working:
        working.replace(node)


@click.command(short_help="Save the state of all nodes, to return to it in seconds.")
@click.argument("name")
@click.pass_obj
def save(cluster: Cluster, name: str) -> None:
    """Save the memory and disks of all nodes as NAME; replace an older state of that name.

    All nodes must be up. They pause for about a second. `rdmaprov lab restore NAME` brings them
    back to this state. `rdmaprov lab status` lists the saved states.
    """
    with at_work(cluster, f"saving {name}", 0) as working:
        working.save(name)
    say(f"saved {name}")


@click.command(short_help="Return nodes to a saved state, in seconds.")
@click.argument("name")
@click.argument("nodes", metavar="[NODE]...", nargs=-1)
@click.pass_obj
def restore(cluster: Cluster, name: str, nodes: Sequence[str]) -> None:
    """Return each NODE, or all nodes, to the state saved as NAME and wait until they answer.

    Nodes that are down start from that state too. Open connections to the nodes end. The nodes'
    clocks are set to the present time.
    """
    with at_work(cluster, f"restoring {name}", len(set(nodes))) as working:
        working.restore(name, nodes)


@click.command(short_help="Break something on a node, as on a real fleet.")
@click.argument("node", required=False)
@click.argument("name", required=False)
@click.option("--rail", type=int, default=0, show_default=True, help="Rail to break.")
@click.option("--list", "as_list", is_flag=True, help="List all faults and what each stands for.")
@click.pass_obj
def fault(cluster: Cluster, node: str | None, name: str | None, rail: int, as_list: bool) -> None:
    """Inject the fault NAME into NODE. `rdmaprov lab heal NODE` removes it."""
    from rdmaprov.cli import lab_cluster
    from rdmaprov.lab import faults

    if as_list:
        lab_cluster.faults(faults.catalogue().values())
        return
    if node is None or name is None:
        raise click.UsageError("name a node and a fault", ctx=click.get_current_context())
    chosen = faults.find(name)
    target = cluster.require_running(node)
    number = model.find_rail(target, rail).number
    with cluster.layout.lock():
        faults.inject(chosen, target, cluster.layout.node(node), number)
    say(f"{node}: {chosen.title}")


@click.command(short_help="Remove all faults from a node.")
@node_argument
@click.pass_obj
def heal(cluster: Cluster, node: str) -> None:
    """Remove every injected fault from NODE and put back what was there before.

    A fault that was repaired in the meantime is left alone.
    """
    from rdmaprov.lab import faults

    target = cluster.require_running(node)
    with cluster.layout.lock():
        healed = faults.heal(target, cluster.layout.node(node))
    names = ", ".join(str(fault) for fault in healed)
    say(f"{node}: healed {names}" if healed else f"{node}: nothing to heal")
