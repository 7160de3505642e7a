"""`rdmaprov explain`: a verdict on a log or a number, without a site."""

from __future__ import annotations

import importlib

import click

# Verb → "module:command", imported when it is asked for.
VERBS = {"floor": "rdmaprov.cli.explain_floor:floor"}


class ExplainGroup(click.Group):
    """The things that can be explained, imported one by one."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's interface
        """Return the verbs in the order of their table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return the verb, None if there is none of that name."""
        if cmd_name not in VERBS:
            return None
        module, _, attribute = VERBS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group(cls=ExplainGroup, short_help="Judge a log or a number, without a site.")
def explain() -> None:
    """Say what a log or a number means; no site is needed."""
