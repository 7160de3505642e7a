"""`rdmaprov merge`: runs of several controllers, judged as one."""

from pathlib import Path
from typing import IO, Unpack

import click

from rdmaprov.cli.complete import complete_run
from rdmaprov.cli.options import VaultOptions, json_option, vault_options
from rdmaprov.cli.publish import publish_options


@click.command(
    short_help="Join runs of validate of several controllers.",
    epilog="Exit codes: 0 all nodes passed and are alike, 1 a check failed, 2 there is no such run"
    " or it is of another verb, 3 the site is invalid, 4 a run cannot be read, or not everything is"
    " verified.",
)
@click.argument("named", nargs=-1, required=True, metavar="RUN...", shell_complete=complete_run)
@click.option(
    "--site",
    type=click.Path(file_okay=False, path_type=Path),
    help="The site of all runs.  [default: where the first run says that its site is]",
)
@json_option
@publish_options
@vault_options
def merge(
    named: tuple[str, ...],
    site: Path | None,
    json_file: IO[str] | None,
    **vault: Unpack[VaultOptions],
) -> int:
    """Join runs of validate that several controllers made of parts of one site.

    RUN is the name of a directory in runs/, or a path. Compares versions, firmware, GUIDs and
    subnets over all nodes; of a node in several runs, the newest one counts, and what older ones
    say differently is printed. Keeps the result as a run of validate. Connects to no node.
    """
    from rdmaprov.cli import session
    from rdmaprov.errors import UsageError
    from rdmaprov.history.merge import lines, merge, read_part
    from rdmaprov.report.read import find_run
    from rdmaprov.runs.directory import RunDirectory, runs_directory
    from rdmaprov.runs.envelope import Head, results_document
    from rdmaprov.terminal import Line

    directories = [find_run(each, runs_directory()).resolve() for each in named]
    if len({*directories}) < max(2, len(directories)):
        hint = "Run: rdmaprov merge RUN RUN, each the run of another controller"
        raise UsageError("merge needs two runs or more, each once", hint)
    parts = [read_part(each) for each in directories]
    site = site or Path(parts[0].site)
    with session.prepare(site, None, json_file, {**vault, "ask_become_pass": False}) as ready:
        found = merge(parts, ready.nodes)
        code = found.exit_code()
        head = Head("validate", site, None, found.started, ready.waivers)
        with RunDirectory("validate", ready.mask, log="merge.log") as directory:
            said = list(lines(found))
            directory.log("\n".join(said))
            document = results_document(head, found.ended, code, found.nodes, found.as_data())
            text = directory.write_results(document)
    session.conclude(directory, text, map(Line, said), ready.screen, json_file)
    return code
