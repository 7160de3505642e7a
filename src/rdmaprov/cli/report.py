"""`rdmaprov report`: write the page of a run."""

import click

from rdmaprov.cli.complete import complete_run
from rdmaprov.cli.publish import runs_option
from rdmaprov.errors import RdmaprovError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.report import read
from rdmaprov.report.write import write_page
from rdmaprov.runs.directory import runs_directory


class PageNotMade(RdmaprovError):
    """A library that a page needs is missing."""

    exit_code = ExitCode.USAGE


@click.command(
    short_help="Write the report page of a run; print its path.",
    epilog="Exit codes, whatever the verdict of the run: 0 the page was written, 2 there is no such"
    " run or the page cannot be written, 4 the run is incomplete.",
)
@click.argument("run", required=False, default="", metavar="[RUN]", shell_complete=complete_run)
@runs_option
def report(run: str) -> int:
    """Write report.html from the results.json of a run, and print its path.

    RUN is the name of a directory in runs/, or a path.  [default: the newest run]
    """
    directory = read.find_run(run, runs_directory())
    try:
        click.echo(write_page(directory))
    except ImportError as error:
        raise PageNotMade(
            f"the Python package {error.name} cannot be imported: {error}",
            "Install rdmaprov again with its dependencies: pip install rdmaprov",
        ) from error
    return 0
