"""`rdmaprov plan`: show what apply would change."""

import shlex
from pathlib import Path
from typing import IO, TYPE_CHECKING, Unpack

import click

from rdmaprov.cli import options
from rdmaprov.cli.publish import publish_options, publish_targets
from rdmaprov.cli.verbosity import verbosity_options

if TYPE_CHECKING:
    from rdmaprov.runs.directory import RunDirectory
    from rdmaprov.terminal import Line


@click.command(
    short_help="Show what apply would change.",
    epilog="Exit codes: 0 nothing to change, 1 a role failed on a node or refused it, 3 the site"
    " is invalid, 4 a node is unreachable, 5 changes pending.",
)
@options.optional_site_argument
@options.limit_option
@options.roles_option
@options.record_option
@click.option(
    "--output",
    "plan_file",
    metavar="FILE",
    callback=options.refuse_empty,
    type=click.Path(dir_okay=False),
    help="Also keep the plan in this file, for: rdmaprov apply FILE",
)
@click.option("--diff", is_flag=True, help="Also print the differences in files.")
@options.json_option
@publish_options
@options.password_options
@verbosity_options
def plan(
    site: Path | None,
    limit: str | None,
    roles: str,
    record_file: Path | None,
    plan_file: str | None,
    diff: bool,
    json_file: IO[str] | None,
    **passwords: Unpack[options.PasswordOptions],
) -> int:
    """Show what `rdmaprov apply` would change on the nodes of SITE; change nothing.

    Nodes with the same change share one line. Logs and results go to runs/, without secrets.
    """
    from rdmaprov.apply import summary
    from rdmaprov.apply.run import ApplyRequest
    from rdmaprov.cli import session
    from rdmaprov.drift.kept_plan import kept_text

    asks = passwords["ask_become_pass"]
    others = {"limit": limit, "output": plan_file, **publish_targets(), "ask_become_pass": asks}
    options.site_or_record(site, record_file, **others)
    named = session.known_roles(roles)
    if record_file is not None:
        from rdmaprov.cli.record_replay import plan_record

        return plan_record(site, record_file, named, diff, json_file, passwords)
    assert site is not None  # noqa: S101 - or it was refused
    with session.prepare(site, limit, json_file, passwords) as ready:
        request = ApplyRequest(
            "plan", site, ready.nodes, limit, named, {}, ready.arguments, ready.waivers
        )
        with session.start_run(request, ready) as run:
            results = run.run_playbook("plan")
            lines = [*summary.plan_lines(results, diffs=diff)]
            if plan_file is not None and not results.interrupted:
                lines += _keep(
                    Path(plan_file), kept_text(site, named, results, ready.mask), run.directory
                )
            return session.finish(run, results, lines, ready.screen, json_file)


def _keep(file: Path, text: str, directory: "RunDirectory") -> "list[Line]":
    """Write a plan; return the line that says so."""
    from rdmaprov.runs.files import write_whole
    from rdmaprov.terminal import Line

    try:
        write_whole(file, text)
    except OSError as error:
        directory.missed[file] = error
        return []
    return [Line(f"plan: {file}; do it with: rdmaprov apply {shlex.quote(str(file))}")]
