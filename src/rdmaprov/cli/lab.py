"""`rdmaprov lab`: the virtual RDMA cluster."""

from pathlib import Path

import click

from rdmaprov.cli.lazy import LazyGroup
from rdmaprov.cli.verbosity import verbosity_options

# Verb → "module:command".
VERBS = {
    "console": "rdmaprov.cli.lab_cluster:console",
    "down": "rdmaprov.cli.lab_cluster:down",
    "fault": "rdmaprov.cli.lab_nodes:fault",
    "heal": "rdmaprov.cli.lab_nodes:heal",
    "reboot": "rdmaprov.cli.lab_nodes:reboot",
    "replace": "rdmaprov.cli.lab_nodes:replace",
    "reset": "rdmaprov.cli.lab_nodes:reset",
    "restore": "rdmaprov.cli.lab_nodes:restore",
    "save": "rdmaprov.cli.lab_nodes:save",
    "shapes": "rdmaprov.cli.lab_cluster:shapes_",
    "ssh": "rdmaprov.cli.lab_cluster:ssh_",
    "status": "rdmaprov.cli.lab_cluster:status",
    "subnet": "rdmaprov.cli.lab_subnet:subnet",
    "up": "rdmaprov.cli.lab_cluster:up",
}


@click.group(cls=LazyGroup, table=VERBS, short_help="Run a virtual RDMA cluster, and break it.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    envvar="RDMAPROV_LAB_DIR",
    help="Directory of the lab: disks, keys, logs.  [default: ~/.local/state/rdmaprov/lab]",
)
@verbosity_options
@click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    envvar="RDMAPROV_CACHE_DIR",
    help="Directory of the built images.  [default: ~/.cache/rdmaprov/lab]",
)
@click.pass_context
def lab(context: click.Context, directory: Path | None, cache: Path | None) -> None:
    """Run a cluster of virtual machines with real RDMA (Soft-RoCE), and break it.

    The nodes start like factory-new servers: nothing that rdmaprov configures is configured.
    `rdmaprov lab up` writes their addresses and keys into the site inventory/lab.
    """
    from rdmaprov.cli.lab_shared import say
    from rdmaprov.lab import layout
    from rdmaprov.lab.cluster import Cluster
    from rdmaprov.lab.layout import Layout

    places = Layout(directory or layout.default_root(), cache or layout.default_cache())
    context.obj = Cluster(places, say)
