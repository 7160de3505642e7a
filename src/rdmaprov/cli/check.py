"""`rdmaprov check`: find every problem of a site, without a connection."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from rdmaprov.cli.options import limit_option, site_argument, vault_file_option
from rdmaprov.cli.verbosity import meter, verbosity, verbosity_options
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.problem import Problem, display_path
from rdmaprov.verbosity import Verbosity, no_colour

if TYPE_CHECKING:
    from rdmaprov.inventory import Fleet


@click.command(
    short_help="Find every problem of a site, without connecting.",
    epilog="Exit codes: 0 valid, 3 the site is invalid.",
)
@site_argument
@limit_option
@click.option(
    "--json",
    "json_file",
    type=click.File("w", lazy=True),
    help="Write the problems to a file as JSON; - is standard output.",
)
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "github"]),
    default="text",
    show_default=True,
    help="Print plain text or GitHub annotations.",
)
@vault_file_option
@click.option(
    "--untrusted",
    is_flag=True,
    help="Read SITE as data, within limits: run, decrypt and template nothing of it.",
)
@verbosity_options
def check(
    site: Path,
    limit: str | None,
    json_file: IO[str] | None,
    style: str,
    vault_password_file: Path | None,
    untrusted: bool,
) -> int:
    """Find every problem of SITE, without connecting to a node.

    Prints one line per problem, sorted by file and line: where it is, what is wrong, and what
    to write. Prints nothing if the site is valid.
    """
    if untrusted:
        if limit is not None or vault_password_file is not None:
            message = "--untrusted excludes --limit and --vault-password-file"
            raise UsageError(message, "Leave them out: it judges the whole site.")
        fleet, found = read_untrusted(site)
    else:
        fleet, found = read(site, limit, vault_password_file)
    if json_file is not None:
        entries = [as_json(problem) for problem in found]
        json.dump({"site": str(site), "problems": entries}, json_file, indent=2)
        json_file.write("\n")
    if json_file is None or json_file.name != "-":
        for problem in found:
            click.echo(annotation(problem) if style == "github" else colour_line(problem))
    if verbosity() is Verbosity.VERBOSE:
        click.echo(f"{len(fleet.nodes)} nodes, {len(found)} problems", err=True)
    return ExitCode.INVALID_SITE if found else ExitCode.OK


def read(site: Path, limit: str | None, vault: Path | None) -> tuple[Fleet, list[Problem]]:
    """Return a site's fleet and its problems; show the progress.

    Raises:
        SiteError: there is no site, or the limit matches no node.

    """
    from rdmaprov import contract
    from rdmaprov.inventory import load_site

    with meter(f"reading {site}") as moving:
        fleet = load_site(site, limit, vault, moving.count)
        moving.what, moving.total = f"checking {site}", 0
        return fleet, contract.problems(fleet)


def read_untrusted(site: Path) -> tuple[Fleet, list[Problem]]:
    """Return a stranger's fleet and its problems, as many as are printed; show the progress.

    Raises:
        SiteError: there is no site, or it takes too much memory or time.

    """
    for name in [name for name in os.environ if name.startswith("ANSIBLE_")]:
        del os.environ[name]
    # Parts of Ansible that convert values read its settings when they are imported.
    with tempfile.NamedTemporaryFile(suffix=".cfg") as no_settings:
        os.environ["ANSIBLE_CONFIG"] = no_settings.name
        from rdmaprov import contract
        from rdmaprov.inventory.untrusted import limits
        from rdmaprov.inventory.untrusted.bounds import bounded
        from rdmaprov.inventory.untrusted.load import load_untrusted

    with meter(f"reading {site}") as moving, bounded():
        fleet = load_untrusted(site, moving.count)
        moving.what, moving.total = f"checking {site}", 0
        found = contract.problems(fleet)
        return fleet, found[: limits.MOST_PROBLEMS]


def as_json(problem: Problem) -> dict[str, object]:
    """Return a problem as `--json` writes it."""
    fields = asdict(problem)
    position = fields.pop("position")
    return {**position, **fields}


def colour_line(problem: Problem) -> str:
    """Return a problem's line, in colour on a terminal."""
    text = problem.text(Path.cwd())
    if not sys.stdout.isatty() or no_colour():
        return text
    at = problem.position
    where = f"{display_path(at.file, Path.cwd())}:{at.line}:{at.column}: "
    rest = text.removeprefix(where).removeprefix(f"{problem.variable}: ")
    return click.style(where, bold=True) + click.style(f"{problem.variable}: ", fg="red") + rest


def annotation(problem: Problem) -> str:
    """Return a problem as a GitHub workflow command."""
    at = problem.position
    file = _escape(display_path(at.file, Path.cwd()), property_=True)
    title = _escape(f"{problem.variable} ({problem.rule})", property_=True)
    text = _escape(f"{problem.message}; {problem.remedy}")
    return f"::error file={file},line={at.line},col={at.column},title={title}::{text}"


def _escape(text: str, *, property_: bool = False) -> str:
    """Return the text escaped, so that it cannot end a workflow command and start another."""
    for plain, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
        text = text.replace(plain, code)
    if property_:
        text = text.replace(":", "%3A").replace(",", "%2C")
    return text
