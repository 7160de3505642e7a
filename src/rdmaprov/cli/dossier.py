"""`rdmaprov dossier`: what a vendor's ticket needs of a node, from kept runs."""

from datetime import UTC, datetime
from pathlib import Path

import click

from rdmaprov.cli.complete import complete_run
from rdmaprov.cli.publish import runs_option
from rdmaprov.exit_codes import ExitCode


@click.command(
    short_help="Write what a vendor's ticket needs of a node.",
    epilog="Exit codes, whatever the verdict of the run: 0 the dossier was written, 2 there is no"
    " such run or node, or KEY cannot sign, 4 the run cannot be read or the dossier not written.",
)
@click.argument("run", shell_complete=complete_run)
@click.argument("node")
@click.option(
    "--output",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write to this directory.  [default: dossier-NODE in the directory of RUN]",
)
@click.option(
    "--sign",
    "key",
    metavar="KEY",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Sign the dossier with this private ssh key.",
)
@click.option("--names", is_flag=True, help="Keep users, jobs, other nodes and addresses.")
@runs_option
def dossier(run: str, node: str, output: Path | None, key: Path | None, names: bool) -> int:
    """Write the evidence on NODE of RUN as a page and as JSON; no connection is made.

    RUN is the name of a directory in runs/, or a path. Serial numbers, measurements before and
    after, counters, lines of the kernel log, what is excluded: each field names its run, time and
    command. Other runs of the site are read, too.
    """
    from rdmaprov.certificate.ssh_signature import require_key
    from rdmaprov.dossier import document
    from rdmaprov.report.read import find_run
    from rdmaprov.runs.directory import runs_directory
    from rdmaprov.runs.files import not_written

    runs = runs_directory()
    made = document.make(run, node, runs, names=names, now=datetime.now(UTC))
    if key is not None:
        require_key(key)
    directory = output or find_run(run, runs) / f"dossier-{node.replace('/', '_')}"
    try:
        written = document.write(made, directory, key)
    except OSError as error:
        raise not_written({directory: error}, "run the same command again.") from error
    part = made["accused"]
    state = "" if part is None or part["proven"] else " (not verified)"
    click.echo(f"{node}: {part['part'] + state if part else 'no part is accused'}")
    click.echo("\n".join(map(str, written)))
    return ExitCode.OK
