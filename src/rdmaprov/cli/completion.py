"""`rdmaprov completion`: what a shell needs to complete the command line."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Print the shell's completion script.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script with which SHELL completes rdmaprov's command line.

    \b
    bash:  rdmaprov completion bash > ~/.local/share/bash-completion/completions/rdmaprov
    zsh:   rdmaprov completion zsh > a file _rdmaprov in a directory of $fpath
    fish:  rdmaprov completion fish > ~/.config/fish/completions/rdmaprov.fish
    """
    root = context.find_root()
    completer = get_completion_class(shell)
    if completer is None:  # a shell that this version of click has lost
        raise click.UsageError(f"no completion for {shell}", ctx=context)
    click.echo(completer(root.command, {}, "rdmaprov", "_RDMAPROV_COMPLETE").source())
