"""Options that are asked for, and what to do about wrong answers.

On a terminal, a wrong answer is asked for again at once. Elsewhere each question takes one line of
standard input, and all answers that are wrong or missing are refused together at the end.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from typing import Any

import click
from click.core import ParameterSource

from rdmaprov.errors import UsageError

_REFUSED, _ASKING, _READING = (f"{__name__}.{word}" for word in ("refused", "asking", "reading"))
_GIVEN = (ParameterSource.COMMANDLINE, ParameterSource.PROMPT)


class AskedOption(click.Option):
    """An option that is asked for if it has a prompt and is not given."""

    def prompt_for_value(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's interface
        """Return the answer; nothing if the command is refused already."""
        if not sys.stdin.isatty():
            return self._read_line(ctx)
        if is_refused(ctx):
            return None
        ctx.meta[_ASKING] = True
        try:
            return super().prompt_for_value(ctx)
        finally:
            ctx.meta[_ASKING] = False

    def _read_line(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's interface
        """Return the next line of standard input, or the default; refuse if there is neither."""
        has_default = isinstance(self.default, str)
        if has_default and not ctx.meta.get(_READING):
            return self.default  # no other answer comes from there
        ctx.meta[_READING] = True
        default = self.default if has_default else ""
        try:
            text = click.prompt(str(self.prompt), default=default, show_default=has_default)
        except click.Abort as error:
            if not isinstance(error.__context__, EOFError):
                raise
            text = default
        if not text:
            refuse(ctx, self, "no answer")
        return text or None

    def process_value(self, ctx: click.Context, value: Any) -> Any:  # noqa: ANN401 - click's interface
        """Return the value in its type; nothing if it is refused."""
        try:
            return super().process_value(ctx, value)
        except click.BadParameter as error:
            if ctx.meta.get(_ASKING) or ctx.resilient_parsing:
                raise
            refuse(ctx, self, error.message.rstrip("."))
            return None


def refuse(context: click.Context, parameter: click.Parameter, why: str) -> None:
    """Note what is wrong with a parameter; `require_answers` tells it."""
    context.meta.setdefault(_REFUSED, {}).setdefault(parameter.name, why)


def is_refused(context: click.Context) -> bool:
    """Return whether a parameter is wrong."""
    return bool(context.meta.get(_REFUSED))


def require_answers(context: click.Context) -> None:
    """Tell all that is wrong, and the command line that has the right answers already.

    Raises:
        UsageError: something is wrong.
    """
    refused: dict[str, str] = context.meta.get(_REFUSED, {})
    if not refused:
        return
    labels = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    texts = [f"{labels[name]}: {why}" for name, why in refused.items()]
    again = " ".join([context.command_path, *_corrected(context, refused)])
    raise UsageError("; ".join(texts), f"Run: {again}")


def _corrected(context: click.Context, refused: dict[str, str]) -> Iterator[str]:
    """Yield the words of a command line, with names in place of what is wrong."""
    for parameter in context.command.params:
        name = str(parameter.name)
        value = context.params.get(name)
        if name in refused:
            word = name.upper()
        elif context.get_parameter_source(name) in _GIVEN and value is not None:
            word = shlex.quote(str(value))
        else:
            continue
        yield word if isinstance(parameter, click.Argument) else f"{parameter.opts[0]} {word}"
