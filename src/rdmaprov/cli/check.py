"""`rdmaprov check`: find every problem of a site, without a connection."""

import json
import sys
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Unpack

import click

from rdmaprov.cli.options import VaultOptions, limit_option, site_argument, vault_options
from rdmaprov.cli.verbosity import meter, verbosity, verbosity_options
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.problem import Problem, display_path, fold_problems, printable
from rdmaprov.verbosity import Verbosity, no_colour
from rdmaprov.words import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rdmaprov.contract import Waived
    from rdmaprov.inventory import Fleet
    from rdmaprov.runs.masks import Mask


# Nodes behind one jump host that need no note: MaxStartups' first number; and who is looked at.
_FEW, _ASKED = 10, 256


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
@vault_options
@click.option("--untrusted", is_flag=True, hidden=True)
@verbosity_options
def check(
    site: Path,
    limit: str | None,
    json_file: IO[str] | None,
    style: str,
    untrusted: bool,
    **passwords: Unpack[VaultOptions],
) -> int:
    """Find every problem of SITE, without connecting to a node.

    Prints one line per problem, sorted by file and line: where it is, what is wrong, and what
    to write. If the site is valid, standard output is empty.
    """
    if untrusted:
        message = "--untrusted is gone: check runs what a site says, as Ansible does"
        raise UsageError(message, "Run check in a sandbox: docs/strangers.md")
    from rdmaprov.cli.passwords import provide_passwords
    from rdmaprov.runs.files import not_written
    from rdmaprov.runs.masks import Mask

    with provide_passwords(passwords) as given:
        fleet, found, waived = read(site, limit, given.vault)
    # What is wrong may be a secret's value; no other text has one.
    mask = Mask([*(fleet.secrets() if found or waived else ()), *given.secrets])
    found = [
        replace(each, message=mask.text(each.message), remedy=mask.text(each.remedy))
        for each in found
    ]
    if json_file is not None:
        from rdmaprov.cli.session import write_json

        document = {
            "site": str(site),
            "problems": [as_json(problem) for problem in found],
            "waivers": mask.data([each.as_data() for each in waived]),
        }
        missed: dict[Path, OSError] = {}
        write_json(missed, json_file, json.dumps(document, indent=2) + "\n")
        if missed:
            raise not_written(missed, "run the same command again.")
    if json_file is None or json_file.name != "-":
        for problem in fold_problems(found):
            click.echo(annotation(problem) if style == "github" else colour_line(problem))
    show_waived(waived, mask)
    machine = controller_note(len(fleet.nodes))
    for note in (machine, jump_note(fleet), *rail_notes(fleet)):
        if note:
            click.echo(mask.text(note), err=True)
    if verbosity() is Verbosity.VERBOSE or (not found and verbosity() is Verbosity.NORMAL):
        count = f"{quantity(len(fleet.nodes), 'node')}, {quantity(len(found), 'problem')}"
        click.echo(f"{site}: {count}", err=True)
    return ExitCode.INVALID_SITE if found else ExitCode.OK


def controller_note(nodes: int, root: Path = Path("/")) -> str:
    """Return that this machine's neighbor table is small for a number of nodes; else empty."""
    path = "proc/sys/net/ipv4/neigh/default/gc_thresh3"
    try:
        size = int((root / path).read_text(encoding="ascii"))
    except (OSError, ValueError):
        size = 2 * nodes  # not Linux, or a namespace
    said = f"note: this machine's neighbor table holds {size} entries (/{path}), fewer than twice "
    said += f"the nodes. If they are in its subnet, run: sysctl -w {path[9:]}={4 * nodes}"
    return said if size < 2 * nodes else ""


def jump_note(fleet: "Fleet") -> str:
    """Return that many nodes are behind one jump host, whose sshd may drop logins; else empty."""
    if len(fleet.nodes) <= _FEW:
        return ""
    from rdmaprov.probe.fleet import find_target
    from rdmaprov.probe.jump import jump_host

    find = find_target(fleet)
    found = [target for node in fleet.nodes[:_ASKED] if (target := find(node.name))]
    ways = Counter(target.argv[:-1] for target in found)
    first = next((target for target in found if ways[target.argv[:-1]] > _FEW), None)
    jump = jump_host(first) if first is not None else ""
    said = f"note: more than {_FEW} nodes are behind the jump host {jump}. Its sshd drops logins "
    said += "when many begin at once (MaxStartups, by default 10:30:100), and rdmaprov then retries"
    return f"{said}. To save time, raise MaxStartups there, such as to 200:30:2000" if jump else ""


def rail_notes(fleet: "Fleet") -> "Iterator[str]":
    """Yield what is odd about rails and names, and right on some machines."""
    from rdmaprov.contract import naming, rails
    from rdmaprov.runs.groups import group_by_text, label

    shapes = {rails.shape(name) for name in fleet.hosts}
    odd = {each.name: [*rails.notes(each, shapes), *naming.notes(each)] for each in fleet.nodes}
    for text, nodes in group_by_text(odd).items():
        yield f"note: {label(nodes, len(fleet.nodes))}: {printable(text)}"


def show_waived(waived: "list[Waived]", mask: "Mask") -> None:
    """Print what a site accepts, on standard error."""
    from rdmaprov.contract import waivers

    for line in waivers.lines(waived):
        click.echo(mask.text(line), err=True)


def read(
    site: Path, limit: str | None, vault: Path | None
) -> "tuple[Fleet, list[Problem], list[Waived]]":
    """Return a site's fleet, its problems, and those that it waives; show the progress.

    Raises:
        SiteError: there is no site, or the limit matches no node.
    """
    from rdmaprov import contract
    from rdmaprov.inventory import load_site

    with meter(f"reading {site}") as moving:
        fleet = load_site(site, limit, vault, moving.count)
        moving.what, moving.total = f"checking {site}", 0
        return fleet, *contract.judge(fleet)


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
