"""What verbs do before and after their work on nodes: passwords, check, run, results."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import click
from rich.console import Console

from rdmaprov.apply.results import Results
from rdmaprov.apply.run import AnsibleFailed, ApplyRequest, Run, open_run
from rdmaprov.cli.check import read
from rdmaprov.cli.options import PasswordOptions
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


@dataclass(frozen=True)
class Passwords:
    """Password files, and the secrets to mask.

    Args:
        vault: the file with the vault password.
        arguments: for ansible-playbook.
        secrets: the passwords that the user typed.
        become: the sudo password, if the user typed it.

    """

    vault: Path | None
    arguments: tuple[str, ...]
    secrets: tuple[str, ...]
    become: str = field(default="", repr=False)


@contextmanager
def passwords(options: PasswordOptions) -> Iterator[Passwords]:
    """Provide passwords as files that only this user can read; remove the files at the end."""
    vault_file = options["vault_password_file"]
    if options["ask_vault_pass"] and vault_file is not None:
        raise UsageError(
            "--ask-vault-pass and --vault-password-file exclude each other", "Pass one of them."
        )
    secrets: list[str] = []
    arguments: list[str] = []
    with tempfile.TemporaryDirectory(prefix="rdmaprov-") as directory:

        def ask(what: str) -> Path:
            secrets.append(click.prompt(f"{what} password", hide_input=True, err=True))
            path = Path(directory, what.lower())
            path.touch(mode=0o600)
            path.write_text(secrets[-1] + "\n")
            return path

        if options["ask_vault_pass"]:
            vault_file = ask("Vault")
        if vault_file is not None:
            arguments += ["--vault-password-file", str(vault_file)]
        become = ""
        if options["ask_become_pass"]:
            arguments += ["--become-password-file", str(ask("BECOME"))]
            become = secrets[-1]
        yield Passwords(vault_file, tuple(arguments), tuple(secrets), become)


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
    with signals_interrupt(), passwords(options) as given:
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
