"""`rdmaprov check`: every problem of a site, found without connecting to anything."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from rdmaprov.cli.options import limit_option, site_argument, vault_file_option
from rdmaprov.cli.verbosity import meter, verbosity, verbosity_options
from rdmaprov.exit_codes import ExitCode
from rdmaprov.problem import Problem, shown
from rdmaprov.verbosity import Verbosity, colourless

if TYPE_CHECKING:
    from rdmaprov.inventory import Fleet


@click.command(short_help="Find every problem of a site, connecting to nothing.")
@site_argument
@limit_option
@click.option(
    "--json",
    "json_file",
    type=click.File("w", lazy=True),
    help="Write the problems to a file, - for stdout.",
)
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "github"]),
    default="text",
    show_default=True,
    help="How to show problems: for people, or as annotations of GitHub.",
)
@vault_file_option
@verbosity_options
def check(
    site: Path,
    limit: str | None,
    json_file: IO[str] | None,
    style: str,
    vault_password_file: Path | None,
) -> int:
    """Find every problem of a site's inventory; connect to nothing.

    Prints one line for each problem, sorted by file and line, and nothing for a good site.
    Exits with 0 or 3.
    """
    fleet, found = read(site, limit, vault_password_file)
    if json_file is not None:
        entries = [as_json(problem) for problem in found]
        json.dump({"site": str(site), "problems": entries}, json_file, indent=2)
        json_file.write("\n")
    if json_file is None or json_file.name != "-":
        for problem in found:
            click.echo(annotation(problem) if style == "github" else coloured(problem))
    if verbosity() is Verbosity.VERBOSE:
        click.echo(f"{len(fleet.nodes)} nodes, {len(found)} problems", err=True)
    return ExitCode.INVALID_SITE if found else ExitCode.OK


def read(site: Path, limit: str | None, vault: Path | None) -> tuple[Fleet, list[Problem]]:
    """Return a site's fleet, and everything that is wrong with it; show how far that is.

    Raises:
        SiteError: there is no site, or the limit leaves no node.

    """
    from rdmaprov import contract
    from rdmaprov.inventory import load_site

    with meter(f"reading {site}") as moving:
        fleet = load_site(site, limit, vault, moving.count)
        moving.what, moving.total = f"checking {site}", 0
        return fleet, contract.problems(fleet)


def as_json(problem: Problem) -> dict[str, object]:
    """Return a problem as `--json` writes it."""
    fields = asdict(problem)
    position = fields.pop("position")
    return {**position, **fields}


def coloured(problem: Problem) -> str:
    """Return a problem's line, in colour on a terminal."""
    text = problem.text(Path.cwd())
    if not sys.stdout.isatty() or colourless():
        return text
    at = problem.position
    where = f"{shown(at.file, Path.cwd())}:{at.line}:{at.column}: "
    rest = text.removeprefix(where).removeprefix(f"{problem.variable}: ")
    return click.style(where, bold=True) + click.style(f"{problem.variable}: ", fg="red") + rest


def annotation(problem: Problem) -> str:
    """Return a problem as a workflow command of GitHub's."""
    at = problem.position
    file = _escaped(shown(at.file, Path.cwd()), property_=True)
    title = _escaped(f"{problem.variable} ({problem.rule})", property_=True)
    text = _escaped(f"{problem.message}; {problem.remedy}")
    return f"::error file={file},line={at.line},col={at.column},title={title}::{text}"


def _escaped(text: str, *, property_: bool = False) -> str:
    """Return the text as workflow commands want it, so that it cannot end one and start another."""
    for plain, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
        text = text.replace(plain, code)
    if property_:
        text = text.replace(":", "%3A").replace(",", "%2C")
    return text
