"""The command line for readers: docs/cli.md."""

from __future__ import annotations

from collections.abc import Iterator

import click

from rdmaprov.cli import PROGRAM, cli
from rdmaprov.exit_codes import MEANINGS

WIDTH = 100
_HEAD = """\
# The command line

Every verb with its arguments and options, as `--help` prints them. Written by
`python -m rdmaprov.cli.document` from the verbs themselves.

## Exit codes

Every verb has the same. What could not be told is never 0.

| code | meaning |
|---|---|"""


def commands(
    command: click.Command = cli, above: click.Context | None = None
) -> Iterator[click.Context]:
    """Yield a context for a command and for each one below it, in the order of the help."""
    context = click.Context(
        command,
        parent=above,
        info_name=command.name if above is not None else PROGRAM,
        terminal_width=WIDTH,
        **command.context_settings,
    )
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None:
                yield from commands(found, context)


def markdown() -> str:
    """Return docs/cli.md: the exit codes, and the help of every command."""
    lines = [_HEAD]
    lines += [f"| {int(code)} | {meaning} |" for code, meaning in MEANINGS.items()]
    for context in commands():
        text = context.command.get_help(context)
        lines += ["", f"## {context.command_path}", "", "```", text, "```"]
    return "\n".join(line.rstrip() for line in "\n".join(lines).splitlines()) + "\n"


if __name__ == "__main__":
    click.echo(markdown(), nl=False)
