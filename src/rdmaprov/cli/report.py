"""`rdmaprov report`: the page of a run."""

from __future__ import annotations

from pathlib import Path

import click

from rdmaprov.errors import RdmaprovError
from rdmaprov.report import read
from rdmaprov.report.write import write_page
from rdmaprov.runs.directory import RUNS


class PageNotMade(RdmaprovError):
    """A library that a page needs is missing."""


@click.command(short_help="Make a run's page again; print its path.")
@click.argument("run", required=False, default="", metavar="[RUN]")
def report(run: str) -> int:
    """Make a run's report.html from its results.json, and print its path.

    RUN is a directory below runs/, or a path to one; by default the newest. The exit code is not
    the run's: 0 if the page was made, 1 if it could not be written, 2 if there is no such run, 4
    if what the run found cannot be read.
    """
    directory = read.find_run(run, Path(RUNS))
    try:
        click.echo(write_page(directory))
    except ImportError as error:
        raise PageNotMade(
            f"the Python package {error.name} cannot be imported: {error}",
            "Install rdmaprov again with what it needs: pip install rdmaprov",
        ) from error
    return 0
