"""Groups of commands that are imported on demand: none pays for what another one needs."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import click
from click.exceptions import NoSuchCommand


class LazyGroup(click.Group):
    """A group of commands that are imported on demand.

    Args:
        table: command → "module:attribute", in the order of the help.
        tasks: heading of the help → its commands; none leaves all under one heading.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - click's
        table: Mapping[str, str],
        tasks: Mapping[str, Sequence[str]] | None = None,
        **attributes: Any,  # noqa: ANN401 - click's
    ) -> None:
        super().__init__(*args, **attributes)
        self.table, self._tasks = table, tasks or {"Commands": list(table)}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under the headings of their tasks."""
        width = max(map(len, self.table))
        for task, names in self._tasks.items():
            found = [(name, self.get_command(ctx, name)) for name in names]
            rows = [(n.ljust(width), c.get_short_help_str(99)) for n, c in found if c]
            with formatter.section(task):
                formatter.write_dl(rows)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's interface
        """Return the commands in the order of their table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, or raise NoSuchCommand with the names that are near."""
        if cmd_name not in self.table:
            if ctx.resilient_parsing or cmd_name.startswith("-"):
                return None
            # click looks for what is near among the commands that were added, here none.
            raise NoSuchCommand(cmd_name, possibilities=self.table, ctx=ctx)
        module, _, attribute = self.table[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command
