"""What verbs do before and after their work on nodes: check, run, results."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import click
from rich.console import Console

from rdmaprov.apply.results import Results
from rdmaprov.apply.run import AnsibleFailed, ApplyRequest, Run, open_run
from rdmaprov.cli.check import read
from rdmaprov.cli.complete import role_names
from rdmaprov.cli.options import PasswordOptions
from rdmaprov.cli.passwords import Passwords, provide_passwords
from rdmaprov.cli.publish import publish_last, publish_run
from rdmaprov.cli.verbosity import verbosity
from rdmaprov.contract.waivers import lines as waived_lines
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.interrupt import signals_interrupt
from rdmaprov.inventory import Fleet
from rdmaprov.inventory.errors import no_nodes
from rdmaprov.problem import fold_problems
from rdmaprov.report.write import report_page
from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.estimate import Expected
from rdmaprov.runs.files import write_whole
from rdmaprov.runs.masks import Mask
from rdmaprov.runs.screen import Screen
from rdmaprov.terminal import Line

# Of this process, such as a shell's >(PROGRAM); no file that could be lost.
_OPENED = ("/dev/fd/", "/dev/std", "/dev/null")


def known_roles(text: str) -> tuple[str, ...]:
    """Return the roles of an option, each once; raise UsageError if one does not exist."""
    there = role_names()
    named = tuple(dict.fromkeys(word for word in text.replace(",", " ").split() if word))
    for role in named:
        if role not in there:
            raise UsageError(f"there is no role {role}", f"Choose from: {', '.join(there)}")
    return named


@dataclass(frozen=True)
class Prepared:
    """A valid site, ready for a run."""

    fleet: Fleet
    given: Passwords
    mask: Mask
    screen: Screen
    waivers: Sequence[Mapping[str, Any]]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes' names."""
        return tuple(node.name for node in self.fleet.nodes)

    def only(self, names: Collection[str]) -> "Prepared":
        """Return the site with some nodes alone."""
        nodes = tuple(node for node in self.fleet.nodes if node.name in names)
        return replace(self, fleet=replace(self.fleet, nodes=nodes))

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the arguments of ansible-playbook."""
        return self.given.arguments


def check_site(
    site: Path, limit: str | None, given: Passwords, json_file: IO[str] | None
) -> Prepared:
    """Return a valid site; print what it waives.

    Raises:
        click.exceptions.Exit: the site has problems; prints them as `check` does.
        SiteError: there is no site, or no node in it.
    """
    fleet, found, waived = read(site, limit, given.vault)
    mask = Mask([*fleet.secrets(), *given.secrets], site)
    for problem in fold_problems(found):
        click.echo(mask.text(problem.text(Path.cwd())), err=is_stdout(json_file))
    for line in waived_lines(waived):
        click.echo(mask.text(line), err=True)
    if found:
        raise click.exceptions.Exit(ExitCode.INVALID_SITE)
    if not fleet.nodes:
        raise no_nodes(site)
    waivers = [each.as_data() for each in waived]
    return Prepared(fleet, given, mask, screen_for(json_file, mask), waivers)


@contextmanager
def prepare(
    site: Path, limit: str | None, json_file: IO[str] | None, options: PasswordOptions
) -> Iterator[Prepared]:
    """Provide a valid site; until the end, a signal to stop is an interrupt."""
    with signals_interrupt(), provide_passwords(options) as given:
        yield check_site(site, limit, given, json_file)


@contextmanager
def start_run(request: ApplyRequest, ready: Prepared) -> Iterator[Run]:
    """Provide a run; one that Ansible ended early gets its page, too."""
    with open_run(request, ready.fleet, ready.given.become, ready.mask, ready.screen) as run:
        try:
            yield run
        except AnsibleFailed:
            ready.screen.show(Line(page_line(run.directory)))
            raise


def screen_for(json_file: IO[str] | None, mask: Mask) -> Screen:
    """Return the screen of a verb: standard output, unless that carries the JSON."""
    return Screen(Console(stderr=is_stdout(json_file), highlight=False), mask, verbosity())


def say_expected(screen: Screen, duration: Expected | None) -> None:
    """Print about how long a verb will take, if that is known."""
    if duration is not None:
        screen.remark(Line(duration.text))


def is_stdout(json_file: IO[str] | None) -> bool:
    """Return whether standard output carries the JSON."""
    return json_file is not None and json_file.name == "-"


def finish(
    run: Run, results: Results, lines: Iterable[Line], shown: Screen, json_file: IO[str] | None
) -> ExitCode:
    """Write and show the results of Ansible's run; return the exit code.

    Raises:
        NotWritten: a file of the run cannot be written.
    """
    text = run.write(results)
    if results.interrupted:
        again = "interrupted; run the same command again to resume"
        lines = [*lines, Line(again, "yellow")]
    conclude(run.directory, text, lines, shown, json_file)
    return results.exit_code()


def conclude(
    directory: RunDirectory,
    text: str,
    lines: Iterable[Line],
    shown: Screen,
    json_file: IO[str] | None,
) -> None:
    """Write the page of a run and its JSON, show the summary, then what cannot be written.

    Raises:
        NotWritten: a file of the run cannot be written.
    """
    endings = []
    if directory.path / "results.json" not in directory.missed:
        endings.append(f"results: {directory.path}")
        endings.append(page_line(directory))  # now: nobody may be there to read what is shown
    if json_file is not None:
        write_json(directory.missed, json_file, text)
    for line in (*lines, *map(Line, endings)):
        shown.show(line)
    if endings:
        publish_last(partial(publish_run, directory.path), lambda line: shown.show(Line(line)))
    directory.require_all()


def page_line(directory: RunDirectory) -> str:
    """Write the page; return the line that names it, or says why there is none."""
    missed = directory.missed
    page = directory.path / "report.html"
    return report_page(directory.path, lambda error: missed.setdefault(page, error))


def write_json(missed: dict[Path, OSError], file: IO[str], text: str) -> None:
    """Write the JSON for the user; leave no half of it in a file."""
    path = Path(file.name)
    try:
        if is_stdout(file) or file.name.startswith(_OPENED):
            file.write(text)  # click opens what is no standard output here
            file.flush()
        else:
            write_whole(path, text, mode=0o666)
    except (OSError, click.FileError) as error:
        missed[path] = error if isinstance(error, OSError) else OSError(error.message)
