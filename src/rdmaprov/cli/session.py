"""What verbs do before and after their work on nodes: check, run, results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import click
from rich.console import Console

from rdmaprov.apply.results import Results
from rdmaprov.apply.run import AnsibleFailed, ApplyRequest, Run, open_run
from rdmaprov.cli.check import read
from rdmaprov.cli.options import PasswordOptions
from rdmaprov.cli.passwords import Passwords, provide_passwords
from rdmaprov.cli.verbosity import verbosity
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.interrupt import signals_interrupt
from rdmaprov.inventory import Fleet, SiteError
from rdmaprov.report.write import report_page
from rdmaprov.resources import data_dir
from rdmaprov.runs.masks import Mask
from rdmaprov.runs.screen import Screen
from rdmaprov.terminal import Line


def known_roles(text: str) -> tuple[str, ...]:
    """Return the roles of an option, each once.

    Raises:
        UsageError: one does not exist.

    """
    there = sorted(
        path.parent.parent.name
        for path in data_dir("roles").glob("*/tasks/main.yml")
        if (data_dir("plugins") / "modules" / f"{path.parent.parent.name}.py").is_file()
    )
    named = tuple(dict.fromkeys(word for word in text.replace(",", " ").split() if word))
    for role in named:
        if role not in there:
            raise UsageError(f"there is no role {role}", f"Choose from: {', '.join(there)}")
    return named


def check_site(site: Path, limit: str | None, given: Passwords) -> tuple[Fleet, Mask]:
    """Return the fleet of a valid site, and the mask of its secrets.

    Raises:
        click.exceptions.Exit: the site has problems; prints them as `check` does.
        SiteError: there is no site, or no node in it.

    """
    fleet, found = read(site, limit, given.vault)
    mask = Mask([*fleet.secrets(), *given.secrets])
    for problem in found:
        click.echo(mask.text(problem.text(Path.cwd())))
    if found:
        raise click.exceptions.Exit(ExitCode.INVALID_SITE)
    if not fleet.nodes:
        raise SiteError(f"{site}: the site has no nodes", f"See: rdmaprov check {site}")
    return fleet, mask


@dataclass(frozen=True)
class Prepared:
    """A valid site, ready for a run."""

    fleet: Fleet
    given: Passwords
    mask: Mask
    screen: Screen

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes' names."""
        return tuple(node.name for node in self.fleet.nodes)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the arguments of ansible-playbook."""
        return self.given.arguments


@contextmanager
def prepare(
    site: Path, limit: str | None, json_file: IO[str] | None, options: PasswordOptions
) -> Iterator[Prepared]:
    """Provide a valid site; until the end, a signal to stop is an interrupt."""
    with signals_interrupt(), provide_passwords(options) as given:
        fleet, mask = check_site(site, limit, given)
        yield Prepared(fleet, given, mask, screen_for(json_file, mask))


@contextmanager
def start_run(request: ApplyRequest, ready: Prepared) -> Iterator[Run]:
    """Provide a run; one that Ansible ended early gets its page, too."""
    with open_run(request, ready.mask, ready.screen) as run:
        try:
            yield run
        except AnsibleFailed:
            ready.screen.show(Line(report_page(run.path)))
            raise


def screen_for(json_file: IO[str] | None, mask: Mask) -> Screen:
    """Return the screen of a verb: standard output, unless that carries the JSON."""
    taken = json_file is not None and json_file.name == "-"
    return Screen(Console(stderr=taken, highlight=False), mask, verbosity())


def finish(
    run: Run, results: Results, lines: Iterable[Line], shown: Screen, json_file: IO[str] | None
) -> ExitCode:
    """Write and show the results; return the exit code."""
    text = run.write(results)
    page = report_page(run.path)  # before anything is shown: nobody may be there to read
    if json_file is not None:
        json_file.write(text)
    for line in lines:
        shown.show(line)
    if results.interrupted:
        shown.show(Line("interrupted; run the same command again to resume", "yellow"))
    shown.show(Line(f"results: {run.path}"))
    shown.show(Line(page))
    return results.exit_code()
