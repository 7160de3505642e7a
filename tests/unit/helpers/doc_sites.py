"""What the commands of a page name: sites, hosts, roles, faults and files of the suite."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import yaml

from rdmaprov.cli import cli, run
from rdmaprov.errors import UsageError
from rdmaprov.inventory import SiteError, load_site
from rdmaprov.lab import faults

ROOT = Path(__file__).resolve().parents[3]
LAB = "inventory/lab"
LAB_NODES = ("node1", "node2")


class PageSites:
    """The sites that a page's reader has: those of the repository, and those the page makes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._sites = {
            f"{folder}/{path.name}": path
            for folder in ("inventory", "tests/fixtures/sites")
            for path in (ROOT / folder).iterdir()
            if path.is_dir()
        }
        self._sites[LAB] = _lab_site(directory / "lab")

    def wrong_name(self, line: str) -> str:
        """Return what a command names that does not exist, empty if all exists."""
        program, *rest = words(line)
        if program == "pytest":
            return self._wrong_pytest(rest)
        return self._wrong_verb(parse(rest), rest) if program == "rdmaprov" else ""

    def _wrong_verb(self, parsed: Parsed, arguments: list[str]) -> str:
        given = parsed.given
        if parsed.verb == "init":
            self._init(arguments, given)
        elif parsed.verb.startswith("lab"):
            return _wrong_lab(given)
        elif site := given.get("site"):
            roles = (given.get("roles") or "").replace(",", " ").split()
            return (
                self._wrong_hosts(site, given.get("limit"))
                or _missing("role", ROOT / "roles", roles)
                or _missing("file", ROOT / "validate", _files(given.get("options")))
            )
        return ""

    def _init(self, arguments: list[str], given: dict[str, Any]) -> None:
        site = str(given["directory"])
        self._sites[site] = self._directory / "made" / site
        place = ["init", str(self._sites[site])]
        if given.get("nodes") or any(word.startswith("--from") for word in arguments):
            options = [word for word in arguments if word not in ("init", site)]
            assert run([*place, *options]) == 0

    def _wrong_pytest(self, arguments: list[str]) -> str:
        options = dict(re.findall(r"^(--hosts|--inventory)=(.*)$", "\n".join(arguments), re.M))
        hosts = options.get("--hosts", "")
        site = options.get("--inventory")
        wrong = self._wrong_hosts(site, None if "://" in hosts else hosts) if site else ""
        return wrong or _missing("file", ROOT / "validate", _files(arguments))

    def _wrong_hosts(self, site: str, pattern: str | None) -> str:
        path = self._sites.get(site.rstrip("/"))
        if path is None:
            return f"there is no site {site}"
        parts = [part.lstrip("!&") for part in re.split(r"[,:](?![^\[]*\])", pattern or "")]
        for part in [*parts, pattern or ""]:
            if part and not _has(path, part):
                return f"{site} has no {part}"
        return ""


def _has(site: Path, pattern: str) -> bool:
    try:
        return bool(load_site(site, pattern).nodes)
    except (SiteError, UsageError):
        return False


def _lab_site(site: Path) -> Path:
    """Make the site that `rdmaprov lab up` leaves, with its two nodes."""
    shutil.copytree(ROOT / LAB, site, ignore=shutil.ignore_patterns("hosts.yml"))
    hosts: dict[str, Any] = {"lab": {"hosts": {name: {} for name in LAB_NODES}}}
    (site / "hosts.yml").write_text(yaml.safe_dump(hosts))
    return site


def _wrong_lab(given: dict[str, Any]) -> str:
    names = given.get("nodes", ())
    # --nodes of `lab up` and `lab subnet up` is their number.
    nodes = [given.get("node"), *(() if isinstance(names, str | int) else names)]
    for node in nodes:
        if node and node not in LAB_NODES:
            return f"the lab has no {node}"
    fault = given.get("name") if given.get("node") else None
    return f"there is no fault {fault}" if fault and fault not in faults.catalogue() else ""


def _files(arguments: list[str] | tuple[str, ...] | None) -> list[str]:
    return [word for word in arguments or () if re.fullmatch(r"test_\w+\.py", word)]


def _missing(kind: str, directory: Path, names: list[str]) -> str:
    found = [name for name in names if not (directory / name).exists()]
    return f"there is no {kind} {found[0]}" if found else ""


FENCE = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
PROGRAMS = ("rdmaprov", "make", "pytest")
# Where a command line ends for the program.
_STOPS = ("|", ">", ">>", "&&", ";", "<")


class WrongCommandError(Exception):
    """The program would refuse the command line."""


@dataclass(frozen=True)
class Parsed:
    verb: str
    given: dict[str, Any]


def commands(text: str) -> Iterator[str]:
    """Yield the lines of fenced blocks that a reader may type, without what a shell adds."""
    for block in FENCE.findall(text):
        lines = block.replace("\\\n", " ").splitlines()
        prompts = any(line.lstrip().startswith("$ ") for line in lines)
        for line in lines:
            if prompts and not line.lstrip().startswith("$ "):
                continue  # what a command prints
            typed = re.sub(r"^ *(\$ +)?(\.venv/bin/)?", "", line)
            if typed.split(" ")[0] in PROGRAMS:
                yield typed


def words(line: str) -> list[str]:
    found = shlex.split(line, comments=True)
    for stop in _STOPS:
        found = found[: found.index(stop)] if stop in found else found
    return found


def wrong_command(line: str, known: dict[str, frozenset[str]]) -> str:
    program, *rest = words(line)
    if program == "rdmaprov":
        try:
            parse(rest)
        except WrongCommandError as error:
            return str(error)
        return ""
    options = {word.partition("=")[0] for word in rest if word.startswith("-")}
    if program == "make":
        options = {word for word in rest if not re.match(r"[A-Z_]+=", word)}
    missing = sorted(options - known[program])
    return f"{line}: {program} has no {', '.join(missing)}" if missing else ""


def parse(
    arguments: list[str], command: click.Command = cli, above: click.Context | None = None
) -> Parsed:
    """Return a command line of rdmaprov, parsed by click without calling anything."""
    context = click.Context(
        command, parent=above, info_name=command.name, **command.context_settings
    )
    context.allow_interspersed_args = command.allow_interspersed_args
    try:
        given, rest, _ = command.make_parser(context).parse_args(list(arguments))
        _check_parameters(command, context, given)
        if isinstance(command, click.Group) and rest:
            name, chosen, others = command.resolve_command(context, rest)
            if chosen is None:
                raise WrongCommandError(f"{command.name} has no verb {rest[0]}")
            below = parse(others, chosen, context)
            return Parsed(f"{name} {below.verb}".strip(), {**given, **below.given})
    except click.UsageError as error:
        problem = f"{context.command_path} {arguments}: {error.format_message()}"
        raise WrongCommandError(problem) from error
    if rest:
        raise WrongCommandError(f"{arguments}: {rest} is too much")
    # click marks a parameter that is not given by an object of its own.
    kinds = (str, tuple, list, int)
    return Parsed("", {name: value for name, value in given.items() if isinstance(value, kinds)})


def _check_parameters(
    command: click.Command, context: click.Context, given: dict[str, Any]
) -> None:
    for parameter in command.params:
        value = given.get(parameter.name or "")
        if isinstance(parameter.type, click.Choice) and isinstance(value, str):
            parameter.type.convert(value, parameter, context)
        required = isinstance(parameter, click.Argument) and parameter.required
        is_given = isinstance(value, str | tuple) and value
        if required and not is_given and not given.get("help"):
            raise WrongCommandError(f"{context.command_path}: {parameter.name} is missing")
