"""`--quiet` and `--verbose` of every verb, and the progress line."""

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
            raise click.UsageError("--quiet and --verbose exclude each other", ctx=context)


def verbosity_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add both options; users may write them before or after the verb."""
    for option in (
        click.option(
            *("-v", "--verbose"),
            is_flag=True,
            expose_value=False,
            callback=_note,
            help="Also print the output of Ansible and ssh.",
        ),
        click.option(
            *("-q", "--quiet"),
            is_flag=True,
            expose_value=False,
            callback=_note,
            help="Print only the result.",
        ),
    ):
        command = option(command)
    return command


def verbosity() -> Verbosity:
    """Return the verbosity of the command line; NORMAL outside of a command."""
    context = click.get_current_context(silent=True)
    chosen: Verbosity = context.meta.get(_KEY, Verbosity.NORMAL) if context else Verbosity.NORMAL
    return chosen


def meter(what: str, total: int = 0, unit: str = "nodes") -> "Meter":
    """Return the progress line on standard error."""
    from rdmaprov.terminal import Meter, progress_console

    return Meter(progress_console(verbosity()), what, total, unit)
