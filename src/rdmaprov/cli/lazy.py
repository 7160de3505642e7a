"""Groups of commands that are imported on demand: none pays for what another one needs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click
from click.exceptions import NoSuchCommand


class LazyGroup(click.Group):
    """A group of commands that are imported on demand.

    Args:
        table: command → "module:attribute", in the order of the help.
    """

    def __init__(self, *args: Any, table: Mapping[str, str], **attributes: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(*args, **attributes)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's interface
        """Return the commands in the order of their table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command.

        Raises:
            NoSuchCommand: there is none of that name; with the names that are near.
        """
        if cmd_name not in self.table:
            if ctx.resilient_parsing or cmd_name.startswith("-"):
                return None
            # click looks for what is near among the commands that were added, here none.
            raise NoSuchCommand(cmd_name, possibilities=self.table, ctx=ctx)
        module, _, attribute = self.table[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command
