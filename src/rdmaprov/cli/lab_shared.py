"""What the verbs of `rdmaprov lab` share: their output, the lock."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from rdmaprov.cli.verbosity import meter, verbosity
from rdmaprov.verbosity import Verbosity

if TYPE_CHECKING:
    from rdmaprov.lab.cluster import Cluster


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


node_argument = click.argument("node")
