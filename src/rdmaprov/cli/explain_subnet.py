"""`rdmaprov explain subnet`: judge what infiniband-diags printed of an InfiniBand subnet."""

import json
from pathlib import Path

import click

from rdmaprov.exit_codes import ExitCode


@click.command("subnet", short_help="Judge an InfiniBand subnet, from what its tools print.")
@click.argument("directory", metavar="DIRECTORY", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the verdict and all figures as JSON.")
def subnet(directory: Path, as_json: bool) -> int:
    """Judge an InfiniBand subnet: cables, rates, errors, managers, routes and their balance.

    DIRECTORY has what the tools of infiniband-diags print, as text:

    \b
      ibnetdiscover-p.txt  ibnetdiscover -p
      dump_fts.txt         dump_fts
      iblinkinfo-l.txt     iblinkinfo -l
      ibqueryerrors.txt    ibqueryerrors
      sminfo.txt           sminfo
      perfquery/           perfquery, files of any name; two readings of a port show
                           whether its errors grow

    In place of sminfo.txt: ibdiagnet2.sm. Beside them: saquery-smir.txt (saquery SMIR),
    ibdiagnet2.log.

    What a missing, empty or cut file would show is not verified.

    \b
    Exit codes:
      0  healthy
      1  something is wrong
      2  wrong usage
      4  nothing is wrong in what was read, but something was not verified
    """
    from rdmaprov.cli import subnet_view
    from rdmaprov.subnet.as_data import document, managers_data
    from rdmaprov.subnet.directory import read_directory
    from rdmaprov.subnet.judge import SubnetVerdict, judge

    assessment = judge(read_directory(directory), is_saved=True)
    if as_json:
        click.echo(
            json.dumps(document(assessment) | {"managers": managers_data(assessment)}, indent=2)
        )
    else:
        click.echo("\n".join(subnet_view.lines(assessment)))
    codes = {
        SubnetVerdict.HEALTHY: ExitCode.OK,
        SubnetVerdict.WRONG: ExitCode.FAILED,
        SubnetVerdict.UNKNOWN: ExitCode.UNKNOWN,
    }
    return codes[assessment.verdict]
