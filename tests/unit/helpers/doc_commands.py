"""The commands that pages of the documentation show, parsed as the programs would parse them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

from rdmaprov.cli import cli

FENCE = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
PROGRAMS = ("rdmaprov", "make", "pytest")
# Where a command line ends for the program.
_STOPS = ("|", ">", ">>", "&&", ";", "<")


class WrongCommandError(Exception):
    """The program would refuse the command line."""


@dataclass(frozen=True)
class Parsed:
    """A command line of rdmaprov: its verb, such as `lab fault`, and what each parameter gets."""

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
    """Return the program and its arguments."""
    found = shlex.split(line, comments=True)
    for stop in _STOPS:
        found = found[: found.index(stop)] if stop in found else found
    return found


def wrong_command(line: str, known: dict[str, frozenset[str]]) -> str:
    """Return what is wrong with a command line, empty if it parses."""
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
    """Return a command line of rdmaprov, parsed by click without calling anything.

    Raises:
        WrongCommandError: click would refuse it.
    """
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
    return Parsed("", {name: value for name, value in given.items() if _is_given(value)})


def _is_given(value: object) -> bool:
    return isinstance(value, str | tuple | list | int)


def _check_parameters(
    command: click.Command, context: click.Context, given: dict[str, Any]
) -> None:
    """Raise an error for a value that is no choice and an argument that is missing."""
    for parameter in command.params:
        value = given.get(parameter.name or "")
        if isinstance(parameter.type, click.Choice) and isinstance(value, str):
            parameter.type.convert(value, parameter, context)
        required = isinstance(parameter, click.Argument) and parameter.required
        is_given = isinstance(value, str | tuple) and value
        if required and not is_given and not given.get("help"):
            raise WrongCommandError(f"{context.command_path}: {parameter.name} is missing")
