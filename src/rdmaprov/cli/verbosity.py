"""`--quiet` and `--verbose`, for every verb alike, and what moves while a verb works."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from rdmaprov.verbosity import Verbosity

if TYPE_CHECKING:
    from rdmaprov.terminal import Meter

_KEY = "rdmaprov.verbosity"


def _note(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    if given:
        chosen = Verbosity.QUIET if parameter.name == "quiet" else Verbosity.VERBOSE
        before = context.meta.setdefault(_KEY, chosen)
        if before is not chosen:
            raise click.UsageError("--quiet and --verbose do not go together", ctx=context)


def verbosity_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; they may stand before the verb or behind it."""
    for option in (
        click.option(
            *("-v", "--verbose"),
            is_flag=True,
            expose_value=False,
            callback=_note,
            help="Say also what the programs below say.",
        ),
        click.option(
            *("-q", "--quiet"),
            is_flag=True,
            expose_value=False,
            callback=_note,
            help="Say the result alone.",
        ),
    ):
        command = option(command)
    return command


def verbosity() -> Verbosity:
    """Return what the command line asks for; NORMAL outside of a command."""
    context = click.get_current_context(silent=True)
    chosen: Verbosity = context.meta.get(_KEY, Verbosity.NORMAL) if context else Verbosity.NORMAL
    return chosen


def meter(what: str, total: int = 0, unit: str = "nodes") -> Meter:
    """Return what moves on standard error while a verb works."""
    from rdmaprov.terminal import Meter, moving_console

    return Meter(moving_console(verbosity()), what, total, unit)
