"""What the verbs of `rdmaprov lab` share: their output, the lock, completion of names."""

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from rdmaprov.cli.complete import matching
from rdmaprov.cli.verbosity import meter, verbosity
from rdmaprov.errors import RdmaprovError
from rdmaprov.lab import layout
from rdmaprov.lab.model import Lab
from rdmaprov.verbosity import Verbosity

if TYPE_CHECKING:
    from rdmaprov.lab.cluster import Cluster
    from rdmaprov.lab.faults import Fault
    from rdmaprov.lab.shapes import Shape


def say(text: str) -> None:
    """Print a line on standard error, unless only the result is wanted."""
    if verbosity() is not Verbosity.QUIET:
        click.echo(text, err=True)


@contextmanager
def at_work(cluster: "Cluster", what: str, nodes: int) -> "Iterator[Cluster]":
    """Provide the locked cluster; its progress is shown below what it prints."""
    with cluster.layout.lock(), meter(what, nodes) as moving:

        def say_above(text: str) -> None:
            if moving.console is None:
                cluster.say(text)
            else:
                moving.console.print(text, soft_wrap=True, markup=False)

        yield dataclasses.replace(cluster, say=say_above, on_answer=moving.advance)


def _lab(context: click.Context) -> Lab | None:
    group = context.parent
    root = group.params.get("directory") if group is not None else None
    try:
        return Lab.load((root or layout.default_root()) / "lab.json")
    except RdmaprovError:
        return None


def complete_node(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the names of nodes that begin so."""
    lab = _lab(context)
    return matching((node.name for node in lab.nodes) if lab else (), incomplete)


def complete_state(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the names of saved states that begin so."""
    lab = _lab(context)
    return matching((state.name for state in lab.saved) if lab else (), incomplete)


def complete_fault(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the faults of the catalogue that begin so."""
    from rdmaprov.lab import faults

    return _titled(faults.catalogue(), incomplete)


def complete_shape(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the shapes of nodes that begin so."""
    from rdmaprov.lab import shapes

    return _titled(shapes.catalogue(), incomplete)


def _titled(
    catalogue: "Mapping[str, Fault] | Mapping[str, Shape]", start: str
) -> list[CompletionItem]:
    """Return what a catalogue has under names that begin so, with the titles."""
    return [
        CompletionItem(name, help=entry.title)
        for name, entry in catalogue.items()
        if name.startswith(start)
    ]


node_argument = click.argument("node", shell_complete=complete_node)
