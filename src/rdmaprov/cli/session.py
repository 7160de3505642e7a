"""What verbs do before and after their work on nodes: passwords, the check, the results."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import click
from rich.console import Console

from rdmaprov.apply.masks import Mask
from rdmaprov.apply.progress import Screen
from rdmaprov.apply.results import Results
from rdmaprov.apply.run import Run
from rdmaprov.apply.summary import Line
from rdmaprov.cli.check import read
from rdmaprov.cli.options import Asked
from rdmaprov.cli.verbosity import verbosity
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.interrupt import signals_interrupt
from rdmaprov.inventory import Fleet, SiteError
from rdmaprov.report.write import told
from rdmaprov.resources import data_dir


@dataclass(frozen=True)
class Passwords:
    """Files with the passwords that were asked for or named, and what must not be shown.

    Args:
        vault: the file with the vault's.
        arguments: of ansible-playbook.
        secrets: what was typed.
        become: sudo's, if it was typed.

    """

    vault: Path | None
    arguments: tuple[str, ...]
    secrets: tuple[str, ...]
    become: str = field(default="", repr=False)


@contextmanager
def passwords(asked_for: Asked) -> Iterator[Passwords]:
    """Provide passwords as files that only this user can read, and that then are gone."""
    vault_file = asked_for["vault_password_file"]
    if asked_for["ask_vault_pass"] and vault_file is not None:
        raise UsageError(
            "--ask-vault-pass and --vault-password-file do not go together", "Give one of them."
        )
    secrets: list[str] = []
    arguments: list[str] = []
    with tempfile.TemporaryDirectory(prefix="rdmaprov-") as directory:

        def asked(what: str) -> Path:
            secrets.append(click.prompt(f"{what} password", hide_input=True, err=True))
            path = Path(directory, what.lower())
            path.touch(mode=0o600)
            path.write_text(secrets[-1] + "\n")
            return path

        if asked_for["ask_vault_pass"]:
            vault_file = asked("Vault")
        if vault_file is not None:
            arguments += ["--vault-password-file", str(vault_file)]
        become = ""
        if asked_for["ask_become_pass"]:
            arguments += ["--become-password-file", str(asked("BECOME"))]
            become = secrets[-1]
        yield Passwords(vault_file, tuple(arguments), tuple(secrets), become)


def known_roles(text: str) -> tuple[str, ...]:
    """Return the roles that an option names, without doubles.

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
            raise UsageError(f"there is no role {role}", f"Name one of {', '.join(there)}")
    return named


def checked(site: Path, limit: str | None, given: Passwords) -> tuple[Fleet, Mask]:
    """Return the site's fleet, and what hides its secrets.

    Raises:
        click.exceptions.Exit: the site has problems; they were printed as by `check`.
        SiteError: there is no site, or no node in it.

    """
    fleet, found = read(site, limit, given.vault)
    mask = Mask([*fleet.secrets(), *given.secrets])
    for problem in found:
        click.echo(mask.text(problem.text(Path.cwd())))
    if found:
        raise click.exceptions.Exit(ExitCode.INVALID_SITE)
    if not fleet.nodes:
        raise SiteError(f"{site}: there are no nodes", f"See: rdmaprov check {site}")
    return fleet, mask


@dataclass(frozen=True)
class Prepared:
    """A checked site, ready to be run on."""

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
def prepared(
    site: Path, limit: str | None, json_file: IO[str] | None, asked_for: Asked
) -> Iterator[Prepared]:
    """Provide a site that was checked; a signal to stop is an interrupt until the end."""
    with signals_interrupt(), passwords(asked_for) as given:
        fleet, mask = checked(site, limit, given)
        yield Prepared(fleet, given, mask, screen_for(json_file, mask))


def screen_for(json_file: IO[str] | None, mask: Mask) -> Screen:
    """Return where a verb's lines go: standard output, unless that has the results as JSON."""
    taken = json_file is not None and json_file.name == "-"
    return Screen(Console(stderr=taken, highlight=False), mask, verbosity())


def finish(
    run: Run, results: Results, lines: Iterable[Line], shown: Screen, json_file: IO[str] | None
) -> ExitCode:
    """Write and show the results; return the exit code."""
    text = run.write(results)
    if json_file is not None:
        json_file.write(text)
    for line in lines:
        shown.show(line)
    if results.interrupted:
        shown.show(Line("interrupted; run the same command again to go on", "yellow"))
    shown.show(Line(f"everything is in {run.path}"))
    shown.show(Line(told(run.path)))
    return results.exit_code()
